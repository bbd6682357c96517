#include "client/interpolate/time_text.h"

#include <limits>
#include <optional>

#include "absl/numeric/int128.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "client/decimal.h"
#include "client/duration_text.h"

namespace attnd::client {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86400 * kSecond;

// Takes fixed-width numbers and separators from the front of a text.
class Reader {
 public:
  explicit Reader(absl::string_view text) : rest_(text) {}

  bool AtEnd() const { return rest_.empty(); }
  bool Take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Exactly `digits` digits with a value from low to high.
  bool TakeNumber(size_t digits, int low, int high, int* value) {
    if (rest_.size() < digits) return false;
    for (size_t i = 0; i < digits; ++i) {
      if (!absl::ascii_isdigit(rest_[i])) return false;
    }
    if (!absl::SimpleAtoi(rest_.substr(0, digits), value)) return false;
    rest_.remove_prefix(digits);
    return *value >= low && *value <= high;
  }
  absl::string_view TakeDigits() {
    size_t count = 0;
    while (count < rest_.size() && absl::ascii_isdigit(rest_[count])) ++count;
    const absl::string_view digits = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return digits;
  }

 private:
  absl::string_view rest_;
};

bool TakeDate(Reader& reader, absl::CivilDay* day) {
  int year, month, day_of_month = 1;
  if (!reader.TakeNumber(4, 0, 9999, &year) || !reader.Take('-') ||
      !reader.TakeNumber(2, 1, 12, &month)) {
    return false;
  }
  if (reader.Take('-') && !reader.TakeNumber(2, 1, 31, &day_of_month)) {
    return false;
  }
  *day = absl::CivilDay(year, month, day_of_month);
  // The 30th of February would silently become a day of March.
  return day->month() == month;
}

// HH:MM[:SS[.fraction]]; 24:00 is the end of the day.
bool TakeClock(Reader& reader, int64_t* ns) {
  int hour, minute, second = 0;
  if (!reader.TakeNumber(2, 0, 24, &hour) || !reader.Take(':') ||
      !reader.TakeNumber(2, 0, 59, &minute)) {
    return false;
  }
  int64_t fraction = 0;
  if (reader.Take(':')) {
    if (!reader.TakeNumber(2, 0, 59, &second)) return false;
    if (reader.Take('.') || reader.Take(',')) {
      const std::optional<int64_t> exact =
          ScaleDecimal(absl::StrCat("0.", reader.TakeDigits(), "0"), kSecond);
      if (!exact) return false;
      fraction = *exact;
    }
  }
  *ns = ((hour * 60 + minute) * 60 + second) * kSecond + fraction;
  return *ns <= kDay;
}

// Nothing, Z, or a sign and HH, HHMM or HH:MM.
bool TakeZone(Reader& reader, int64_t* offset_ns) {
  *offset_ns = 0;
  if (reader.AtEnd() || reader.Take('Z') || reader.Take('z')) return true;
  const bool west = reader.Take('-');
  if (!west && !reader.Take('+')) return false;
  int hour, minute = 0;
  if (!reader.TakeNumber(2, 0, 23, &hour)) return false;
  reader.Take(':');
  if (!reader.AtEnd() && !reader.TakeNumber(2, 0, 59, &minute)) return false;
  *offset_ns = (hour * 60 + minute) * 60 * kSecond * (west ? -1 : 1);
  return true;
}

std::optional<absl::int128> ParseIso(absl::string_view text) {
  Reader reader(text);
  absl::CivilDay day;
  if (!TakeDate(reader, &day)) return {};
  int64_t clock_ns = 0;
  int64_t offset_ns = 0;
  if (!reader.AtEnd()) {
    if (!reader.Take('T') && !reader.Take('t') && !reader.Take(' ')) return {};
    if (!TakeClock(reader, &clock_ns) || !TakeZone(reader, &offset_ns)) {
      return {};
    }
    if (!reader.AtEnd()) return {};
  }
  return absl::int128(day - absl::CivilDay(1970, 1, 1)) * kDay + clock_ns -
         offset_ns;
}

// Decimals of a second that `ns` needs, in steps of three.
int Decimals(int64_t ns) {
  if (ns % kSecond == 0) return 0;
  if (ns % 1'000'000 == 0) return 3;
  return ns % 1000 == 0 ? 6 : 9;
}

std::string IsoText(int64_t ns, bool date_only, int decimals) {
  // Towards the past; floor(ns / kSecond) * kSecond itself may overflow.
  const int64_t below =
      ns % kSecond < 0 ? ns % kSecond + kSecond : ns % kSecond;
  const absl::CivilSecond civil = absl::CivilSecond(1970, 1, 1) +
                                  (ns / kSecond - (ns % kSecond < 0 ? 1 : 0));
  if (date_only) {
    return absl::StrFormat("%04d-%02d-%02d", civil.year(), civil.month(),
                           civil.day());
  }
  const std::string fraction =
      absl::StrFormat("%09d", below).substr(0, decimals);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d%s%sZ", civil.year(),
                         civil.month(), civil.day(), civil.hour(),
                         civil.minute(), civil.second(),
                         decimals > 0 ? "." : "", fraction);
}

std::string CountText(int64_t ns, int64_t unit_ns) {
  const int64_t whole = ns / unit_ns;
  int64_t rest = ns % unit_ns;
  if (rest == 0) return absl::StrCat(whole);
  std::string text = absl::StrCat(ns < 0 && whole == 0 ? "-" : "", whole, ".");
  for (rest = rest < 0 ? -rest : rest; rest != 0; rest = rest * 10 % unit_ns) {
    absl::StrAppend(&text, rest * 10 / unit_ns);
  }
  return text;
}

}  // namespace

absl::StatusOr<TimeFormat> TimeFormatOf(absl::string_view time_unit) {
  if (time_unit.empty()) return TimeFormat{};
  const auto unit_ns = UnitNanoseconds(time_unit);
  if (unit_ns) return TimeFormat{.epoch_unit_ns = *unit_ns};
  return absl::InvalidArgumentError(absl::StrCat(
      "--time-unit ", time_unit, ", expected ns us ms s min h d or w"));
}

absl::StatusOr<int64_t> ParseTime(absl::string_view text,
                                  const TimeFormat& format) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  if (format.epoch_unit_ns > 0) {
    if (auto ns = ScaleDecimal(trimmed, format.epoch_unit_ns)) return *ns;
    return absl::InvalidArgumentError(
        absl::StrCat("time '", text,
                     "', expected a decimal number that is a whole number "
                     "of nanoseconds within 292 years of 1970"));
  }
  const std::optional<absl::int128> ns = ParseIso(trimmed);
  if (!ns) {
    return absl::InvalidArgumentError(
        absl::StrCat("time '", text,
                     "', expected a date that exists, as 2001-12-29 or "
                     "2001-12-29T13:45:00.5+02:00"));
  }
  if (*ns < std::numeric_limits<int64_t>::min() ||
      *ns > std::numeric_limits<int64_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("time '", text,
                     "', expected 1677-09-21 to 2262-04-11: int64 "
                     "nanoseconds reach no further"));
  }
  return static_cast<int64_t>(*ns);
}

std::vector<std::string> TimeTexts(absl::Span<const int64_t> times_ns,
                                   const TimeFormat& format) {
  bool date_only = true;
  int decimals = 0;
  for (int64_t ns : times_ns) {
    date_only = date_only && ns % kDay == 0;
    decimals = std::max(decimals, Decimals(ns));
  }
  std::vector<std::string> texts;
  texts.reserve(times_ns.size());
  for (int64_t ns : times_ns) {
    texts.push_back(format.epoch_unit_ns > 0
                        ? CountText(ns, format.epoch_unit_ns)
                        : IsoText(ns, date_only, decimals));
  }
  return texts;
}

}  // namespace attnd::client
