#include "kernels/phase_rows.h"

#include <cmath>

#include "kernels/clock.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/phase_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// Sums of phase words in turns / 2^64, then cos and sin of them in double.
void PhaseRow(const HeadEncoder& head, const PhasePoint* points, float* cosine,
              float* sine) {
  for (int p = 0; p < head.table_size(); ++p) {
    const double angle = static_cast<double>(static_cast<int64_t>(
                             PhaseWordOf(head, points, p))) *
                         (2 * M_PI * 0x1p-64);
    cosine[p] = static_cast<float>(std::cos(angle));
    sine[p] = static_cast<float>(std::sin(angle));
  }
}

#else  // vectors

using Lane = hn::CappedTag<float, 16>;
using Word32 = hn::RebindToUnsigned<Lane>;
using Word64 = hn::Repartition<uint64_t, Word32>;

// Phase words of one vector of frequencies: upper half of F * n mod 2^128 by
// 32-bit partial products (clock.cc has the scalar twin).
HWY_INLINE hn::Vec<Word64> PhaseWords(const uint64_t* hi, const uint64_t* lo,
                                      hn::Vec<Word64> n0, hn::Vec<Word64> n1) {
  const Word64 d64;
  const Word32 d32;
  const auto times = [&](hn::Vec<Word64> a, hn::Vec<Word64> b) {
    return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
  };
  const auto h0 = hn::LoadU(d64, hi), l0 = hn::LoadU(d64, lo);
  const auto h1 = hn::ShiftRight<32>(h0), l1 = hn::ShiftRight<32>(l0);
  const auto low_mask = hn::Set(d64, 0xFFFFFFFFull);
  // Upper 64 bits of lo * n.
  const auto l1n0 = times(l1, n0), l0n1 = times(l0, n1);
  const auto middle =
      hn::Add(hn::Add(hn::And(l1n0, low_mask), hn::And(l0n1, low_mask)),
              hn::ShiftRight<32>(times(l0, n0)));
  auto word =
      hn::Add(hn::Add(times(l1, n1), hn::ShiftRight<32>(middle)),
              hn::Add(hn::ShiftRight<32>(l1n0), hn::ShiftRight<32>(l0n1)));
  // Lower 64 bits of hi * n.
  word = hn::Add(word, times(h0, n0));
  word =
      hn::Add(word, hn::ShiftLeft<32>(hn::Add(times(h1, n0), times(h0, n1))));
  return word;
}

// cos and sin of phase/2^32 turns. The nearest quarter turn is taken off as an
// integer, so that what becomes a float is at most an eighth of a turn.
// Polynomials on [-pi/4, pi/4]: Cephes (Moshier 1992).
HWY_INLINE void SinCos(hn::Vec<Word32> phase, float* cosine, float* sine) {
  const Lane d;
  const Word32 d32;
  const hn::RebindToSigned<Lane> di;
  const auto quarter =
      hn::ShiftRight<30>(hn::Add(phase, hn::Set(d32, uint32_t{1} << 29)));
  const auto rest = hn::BitCast(di, hn::Sub(phase, hn::ShiftLeft<30>(quarter)));
  const auto x = hn::Mul(hn::ConvertTo(d, rest),
                         hn::Set(d, 1.46291807926715968e-9f));  // 2pi / 2^32
  const auto z = hn::Mul(x, x);
  auto s = hn::MulAdd(hn::Set(d, -1.9515295891e-4f), z,
                      hn::Set(d, 8.3321608736e-3f));
  s = hn::MulAdd(s, z, hn::Set(d, -1.6666654611e-1f));
  s = hn::MulAdd(hn::Mul(s, z), x, x);
  auto c = hn::MulAdd(hn::Set(d, 2.443315711809948e-5f), z,
                      hn::Set(d, -1.388731625493765e-3f));
  c = hn::MulAdd(c, z, hn::Set(d, 4.166664568298827e-2f));
  c = hn::MulAdd(hn::Mul(c, z), z,
                 hn::NegMulAdd(hn::Set(d, 0.5f), z, hn::Set(d, 1.0f)));
  const auto one = hn::Set(d32, 1u), two = hn::Set(d32, 2u);
  const auto swap = hn::MaskFromVec(
      hn::BitCast(d, hn::VecFromMask(d32, hn::Eq(hn::And(quarter, one), one))));
  const auto cosine_sign =
      hn::ShiftLeft<30>(hn::And(hn::Add(quarter, one), two));
  const auto sine_sign = hn::ShiftLeft<30>(hn::And(quarter, two));
  const auto cosine_size = hn::IfThenElse(swap, s, c);
  const auto sine_size = hn::IfThenElse(swap, c, s);
  hn::StoreU(hn::Xor(cosine_size, hn::BitCast(d, cosine_sign)), d, cosine);
  hn::StoreU(hn::Xor(sine_size, hn::BitCast(d, sine_sign)), d, sine);
}

// Turns of a learned clock as words.
HWY_INLINE hn::Vec<Word64> ClockWords(const double* high, const double* low,
                                      double clock) {
  const Word64 d64;
  const hn::Repartition<double, Word64> df;
  const auto part = [&](const double* turns) {
    const auto t = hn::Mul(hn::LoadU(df, turns), hn::Set(df, clock));
    return hn::Sub(t, hn::Round(t));
  };
  const auto t = hn::Add(part(high), part(low));
  const auto rest = hn::Sub(t, hn::Round(t));  // [-1/2, 1/2]
  // A number in [1, 2] is its mantissa: a turn is all of its bits.
  return hn::Xor(
      hn::ShiftLeft<12>(hn::BitCast(d64, hn::Add(rest, hn::Set(df, 1.5)))),
      hn::Set(d64, uint64_t{1} << 63));
}

HWY_INLINE void PhaseRow(const HeadEncoder& head, const PhasePoint* points,
                         float* cosine, float* sine) {
  const Word64 d64;
  const Word32 d32;
  const int64_t n = hn::Lanes(Lane());
  const size_t sources = head.frequencies().size();
  bool vectors = true;
  for (size_t s = 0; s < sources; ++s) {
    vectors = vectors && (points[s].kind == PhasePoint::Kind::kTicks ||
                          points[s].kind == PhasePoint::Kind::kClock);
  }
  HWY_ALIGN uint32_t words[16];
  for (int64_t p = 0; p < head.table_size(); p += n) {
    if (!vectors) {
      for (int64_t i = 0; i < n; ++i) {
        words[i] = static_cast<uint32_t>(
            PhaseWordOf(head, points, static_cast<int>(p + i)) >> 32);
      }
      SinCos(hn::Load(d32, words), cosine + p, sine + p);
      continue;
    }
    auto a = hn::Zero(d64), b = hn::Zero(d64);
    for (size_t s = 0; s < sources; ++s) {
      const HeadEncoder::Frequencies& f = head.frequencies()[s];
      if (!f.turning[p / 16]) continue;
      if (points[s].kind == PhasePoint::Kind::kClock) {
        const double clock = points[s].real;
        const int64_t q = p + n / 2;
        a = hn::Add(a, ClockWords(&f.clock_high[p], &f.clock_low[p], clock));
        b = hn::Add(b, ClockWords(&f.clock_high[q], &f.clock_low[q], clock));
        continue;
      }
      const auto ticks = static_cast<uint64_t>(points[s].ticks);
      const auto n0 = hn::Set(d64, ticks & 0xFFFFFFFFull);
      const auto n1 = hn::Set(d64, ticks >> 32);
      a = hn::Add(a, PhaseWords(&f.hi[p], &f.lo[p], n0, n1));
      b = hn::Add(b, PhaseWords(&f.hi[p + n / 2], &f.lo[p + n / 2], n0, n1));
      // The partial products take ticks as unsigned.
      if (points[s].ticks < 0) {
        a = hn::Sub(a, hn::LoadU(d64, &f.lo[p]));
        b = hn::Sub(b, hn::LoadU(d64, &f.lo[p + n / 2]));
      }
    }
    SinCos(hn::ConcatEven(d32, hn::BitCast(d32, hn::ShiftRight<32>(b)),
                          hn::BitCast(d32, hn::ShiftRight<32>(a))),
           cosine + p, sine + p);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

void PhaseRowsImpl(const HeadEncoder& head, const PhasePoint* points,
                   int64_t rows, float* phases) {
  const size_t sources = head.frequencies().size();
  const int64_t table = head.table_size();
  for (int64_t r = 0; r < rows; ++r) {
    float* row = phases + int64_t{head.phase_floats()} * r;
    PhaseRow(head, points + sources * r, row, row + table);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

uint64_t PhaseWordOf(const HeadEncoder& head, const PhasePoint* points,
                     int plane) {
  uint64_t word = 0;
  for (size_t s = 0; s < head.frequencies().size(); ++s) {
    const HeadEncoder::Frequencies& f = head.frequencies()[s];
    const TurnFrequency turns{f.hi[plane], f.lo[plane], f.whole[plane]};
    switch (points[s].kind) {
      case PhasePoint::Kind::kTicks:
        word += PhaseWord(turns, points[s].ticks);
        break;
      case PhasePoint::Kind::kReal:
      case PhasePoint::Kind::kClock:
        word += PhaseWord(turns, points[s].real);
        break;
      case PhasePoint::Kind::kHf: {
        const float angle = static_cast<float>(points[s].real) *
                            static_cast<float>(f.omega[plane]);
        const double t = static_cast<double>(angle) / (2 * M_PI);
        word += static_cast<uint64_t>(
                    static_cast<int64_t>((t - std::nearbyint(t)) * 0x1p52))
                << 12;
        break;
      }
    }
  }
  return word;
}

HWY_EXPORT(PhaseRowsImpl);

void PhaseRows(const HeadEncoder& head, const PhasePoint* points, int64_t rows,
               float* phases) {
  HWY_DYNAMIC_DISPATCH(PhaseRowsImpl)(head, points, rows, phases);
}

}  // namespace attnd
#endif  // HWY_ONCE
