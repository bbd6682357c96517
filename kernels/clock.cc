#include "kernels/clock.h"

#include <array>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace attnd {
namespace {

using Wide = unsigned __int128;

// A natural number in 32-bit limbs, lowest first; only what MakeTurnFrequency
// needs.
using Limbs = std::vector<uint32_t>;

// 1/2pi * 2^kInverseBits: enough for the largest double.
constexpr int kInverseBits = 1280;
constexpr std::array<uint32_t, kInverseBits / 32> kInverseTwoPi = {
    0x26BD0D87u, 0xFC33EF08u, 0xBF1EDAEAu, 0x1580CC11u, 0x47E35742u,
    0x9AFED7ECu, 0xE294A4BAu, 0xCF41CE7Du, 0xFAF97C5Eu, 0x5D49EEB1u,
    0xA797FA8Bu, 0xD3D18FD9u, 0xC9F2C26Du, 0xDB4D9FB3u, 0xD6829B47u,
    0xFBCBC462u, 0xF7816603u, 0xC7FE25FFu, 0xEF7E4A0Eu, 0x272117E2u,
    0x60D4CE7Du, 0x4E64758Eu, 0xAD17DF90u, 0x3A671C09u, 0x4BAED121u,
    0xBA208D7Du, 0x2C4A69CFu, 0x3F877AC7u, 0x82746487u, 0x01924BBAu,
    0x909374B8u, 0x6DC91B8Eu, 0xF7AEF158u, 0x7F9458EAu, 0x4F10E410u,
    0x36D8A566u, 0x7D4D3770u, 0x7F09D5F4u, 0x9391054Au, 0x28BE60DBu};

void MultiplyBy(Limbs& n, uint64_t factor) {
  Wide carry = 0;
  for (uint32_t& limb : n) {
    carry += Wide{limb} * factor;
    limb = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  for (; carry != 0; carry >>= 32) n.push_back(static_cast<uint32_t>(carry));
}

void DivideBy(Limbs& n, uint64_t divisor) {
  Wide rest = 0;
  for (size_t i = n.size(); i-- > 0;) {
    rest = (rest << 32) | n[i];
    n[i] = static_cast<uint32_t>(rest / divisor);
    rest %= divisor;
  }
}

// n * 2^bits, dropping what falls below 1.
Limbs Shifted(const Limbs& n, int bits) {
  const int words = bits >= 0 ? bits / 32 : -((31 - bits) / 32);
  const int rest = bits - words * 32;  // 0..31
  Limbs out;
  for (int i = 0; i <= static_cast<int>(n.size()) + words; ++i) {
    const int high = i - words, low = high - 1;
    const auto limb = [&](int j) -> uint64_t {
      return j >= 0 && j < static_cast<int>(n.size()) ? n[j] : 0;
    };
    out.push_back(static_cast<uint32_t>((limb(high) << rest) |
                                        ((limb(low) << rest) >> 32)));
  }
  return out;
}

uint64_t Word(const Limbs& n, size_t i) {
  const auto limb = [&](size_t j) -> uint64_t {
    return j < n.size() ? n[j] : 0;
  };
  return limb(2 * i) | (limb(2 * i + 1) << 32);
}

struct UnitName {
  absl::string_view name;
  int64_t ns;
};
constexpr UnitName kUnits[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
    {"min", 60000000000},
    {"h", 3600000000000},
    {"d", 86400000000000},
    {"w", 604800000000000},
};

absl::Status BadUnit(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "time unit \"", text, "\": ", why,
      "; expected \"position\" or a decimal number and one of ns us ms s min h "
      "d w, a whole number of nanoseconds (\"1s\", \"365.25d\")"));
}

}  // namespace

absl::StatusOr<int64_t> ParseTimeUnit(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  if (trimmed == "position") return 0;
  size_t i = 0;
  Wide digits = 0, scale = 1;
  bool seen = false, fraction = false;
  for (; i < trimmed.size(); ++i) {
    const char c = trimmed[i];
    if (c == '.' && !fraction) {
      fraction = true;
    } else if (absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      digits = digits * 10 + static_cast<unsigned>(c - '0');
      if (fraction) scale *= 10;
      seen = true;
      if (digits > Wide{INT64_MAX} || scale > Wide{INT64_MAX}) {
        return BadUnit(text, "too many digits");
      }
    } else {
      break;
    }
  }
  if (!seen) return BadUnit(text, "no number");
  const absl::string_view name =
      absl::StripLeadingAsciiWhitespace(trimmed.substr(i));
  for (const UnitName& unit : kUnits) {
    if (name != unit.name) continue;
    const Wide scaled = digits * static_cast<Wide>(unit.ns);
    const Wide ns = scaled / scale;
    if (scaled % scale != 0) return BadUnit(text, "not a whole number of ns");
    if (ns == 0) return BadUnit(text, "zero");
    if (ns > Wide{INT64_MAX}) return BadUnit(text, "longer than 292 years");
    return static_cast<int64_t>(ns);
  }
  return BadUnit(text, name.empty() ? "no unit" : "unknown unit");
}

TurnFrequency MakeTurnFrequency(double omega, const TickRatio& ratio) {
  if (omega == 0) return {};
  int exponent;
  const double fraction = std::frexp(std::fabs(omega), &exponent);
  const auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53));
  Limbs n(kInverseTwoPi.begin(), kInverseTwoPi.end());
  MultiplyBy(n, mantissa);
  MultiplyBy(n, static_cast<uint64_t>(ratio.tick_ns));
  // Now n * 2^(exponent - 53 - kInverseBits) / unit_ns turns per tick; keep 64
  // bits below 2^-128 for the rounding.
  n = Shifted(n, exponent - 53 - kInverseBits + 128 + 64);
  DivideBy(n, static_cast<uint64_t>(ratio.unit_ns));
  const uint64_t round = Word(n, 0) >> 63;
  Wide turns = Wide{Word(n, 2)} << 64 | Word(n, 1);
  Wide whole = Wide{Word(n, 4)} << 64 | Word(n, 3);
  turns += round;
  if (turns < round) ++whole;
  if (omega < 0) {
    turns = -turns;
    whole = turns == 0 ? -whole : ~whole;
  }
  return {static_cast<uint64_t>(turns >> 64), static_cast<uint64_t>(turns),
          static_cast<__int128>(whole)};
}

uint64_t PhaseWord(const TurnFrequency& frequency, int64_t ticks) {
  const auto n = static_cast<uint64_t>(ticks);
  const auto carry = static_cast<uint64_t>((Wide{frequency.lo} * n) >> 64);
  uint64_t word = frequency.hi * n + carry;
  if (ticks < 0) word -= frequency.lo;
  return word;
}

uint64_t PhaseWord(const TurnFrequency& frequency, double ticks) {
  int exponent;
  const double fraction = std::frexp(std::fabs(ticks), &exponent);
  const auto mantissa = static_cast<uint64_t>(std::ldexp(fraction, 53));
  const int shift = exponent - 53;  // ticks = mantissa * 2^shift
  const auto of_whole = static_cast<Wide>(frequency.whole);
  const Wide low = Wide{frequency.lo} * mantissa;
  const Wide high = Wide{frequency.hi} * mantissa + (low >> 64);
  const Wide low_whole =
      Wide{static_cast<uint64_t>(of_whole)} * mantissa + (high >> 64);
  const __int128 top =
      (frequency.whole >> 64) * static_cast<__int128>(mantissa) +
      static_cast<__int128>(low_whole >> 64);
  const uint64_t sign = top < 0 ? ~uint64_t{0} : 0;
  const uint64_t words[6] = {
      static_cast<uint64_t>(low),       static_cast<uint64_t>(high),
      static_cast<uint64_t>(low_whole), static_cast<uint64_t>(top),
      static_cast<uint64_t>(top >> 64), sign};
  // Bits [64 - shift, 128 - shift) of the product, a two's complement.
  const int first = 64 - shift;
  if (first >= 320 || first <= -64) return 0;
  uint64_t word;
  if (first < 0) {
    word = words[0] << -first;
  } else {
    const int index = first / 64, rest = first % 64;
    word = words[index] >> rest;
    if (rest != 0) word |= words[index + 1] << (64 - rest);
  }
  return ticks < 0 ? -word : word;
}

ClockTurns MakeClockTurns(double omega) {
  // 1/2pi in two doubles.
  constexpr double kHigh = 0x1.45f306dc9c883p-3, kLow = -0x1.6b01ec5417056p-57;
  const double turns = omega * kHigh;
  if (std::fabs(turns) >= 0x1p255) return {};
  const double rest = std::fma(omega, kHigh, -turns) + omega * kLow;
  int exponent;
  const double fraction = std::frexp(turns, &exponent);
  const double high =
      std::ldexp(std::trunc(std::ldexp(fraction, 29)), exponent - 29);
  return {.high = high, .low = (turns - high) + rest};
}

absl::StatusOr<TimeAxis> TimeAxis::Make(Kind kind, absl::Span<const char> bytes,
                                        int64_t batch, int64_t rows,
                                        bool per_item, int coordinates) {
  int64_t expected = 0;
  if (kind != Kind::kPositions) {
    if (batch < 0 || rows < 0 || coordinates < 1 ||
        __builtin_mul_overflow(rows, int64_t{coordinates} * 8, &expected) ||
        (per_item && __builtin_mul_overflow(expected, batch, &expected))) {
      return absl::InvalidArgumentError(
          "times: shape is negative or too large");
    }
  }
  if (static_cast<int64_t>(bytes.size()) != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "times: ", bytes.size(), " bytes, expected ", expected, " (",
        per_item ? batch : 1, "x", rows, "x", coordinates, " of 8 bytes)"));
  }
  TimeAxis axis;
  axis.kind_ = kind;
  axis.bytes_ = bytes;
  axis.batch_ = per_item ? batch : 1;
  axis.rows_ = rows;
  axis.per_item_ = per_item;
  axis.coordinates_ = coordinates;
  return axis;
}

int64_t TimeAxis::Ticks(int64_t batch, int64_t row, int coordinate) const {
  const int64_t item = per_item_ ? batch : 0;
  int64_t value;
  std::memcpy(
      &value,
      bytes_.data() + 8 * ((item * rows_ + row) * coordinates_ + coordinate),
      sizeof(value));
  return value;
}

double TimeAxis::Real(int64_t batch, int64_t row, int coordinate) const {
  const int64_t bits = Ticks(batch, row, coordinate);
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace attnd
