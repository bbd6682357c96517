#include "kernels/rotation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/clock.h"
#include "kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Lane = hn::CappedTag<float, 16>;

#if HWY_TARGET == HWY_SCALAR

template <typename Ticks>
void PhaseRowScalar(const Encoder& encoder, Ticks ticks, float* cosine,
                    float* sine) {
  for (int p = 0; p < encoder.planes(); ++p) {
    const TurnFrequency f{encoder.frequencies_hi()[p],
                          encoder.frequencies_lo()[p],
                          encoder.whole_turns()[p]};
    const double angle =
        static_cast<double>(static_cast<int64_t>(PhaseWord(f, ticks))) *
        (2 * M_PI * 0x1p-64);
    cosine[p] = static_cast<float>(std::cos(angle));
    sine[p] = static_cast<float>(std::sin(angle));
  }
}
void PhaseRowTicks(const Encoder& encoder, int64_t ticks, float* cosine,
                   float* sine) {
  PhaseRowScalar(encoder, ticks, cosine, sine);
}
void PhaseRowReal(const Encoder& encoder, double ticks, float* cosine,
                  float* sine) {
  PhaseRowScalar(encoder, ticks, cosine, sine);
}
void PackBlockImpl(const float* rows, int64_t padded, float* block) {
  for (int64_t j = 0; j < kKeyBlock; ++j) {
    for (int64_t c = 0; c < padded; ++c) {
      block[c * kKeyBlock + j] = rows[j * padded + c];
    }
  }
}

#else  // vectors

using Word32 = hn::RebindToUnsigned<Lane>;
using Word64 = hn::Repartition<uint64_t, Word32>;

// Upper 32 bits of the phase words of one vector of 64-bit frequencies, in the
// even 32-bit lanes: F * n mod 2^128 by 32-bit partial products (clock.cc has
// the scalar twin).
HWY_INLINE hn::Vec<Word64> PhaseTop(const uint64_t* hi, const uint64_t* lo,
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
  return hn::ShiftRight<32>(word);
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

void PhaseRowTicks(const Encoder& encoder, int64_t ticks, float* cosine,
                   float* sine) {
  const Word64 d64;
  const Word32 d32;
  const int64_t n = hn::Lanes(Lane());
  // The partial products are unsigned; time backwards turns the sine round.
  const uint64_t word =
      ticks < 0 ? -static_cast<uint64_t>(ticks) : static_cast<uint64_t>(ticks);
  const auto n0 = hn::Set(d64, word & 0xFFFFFFFFull);
  const auto n1 = hn::Set(d64, word >> 32);
  const uint64_t* hi = encoder.frequencies_hi().data();
  const uint64_t* lo = encoder.frequencies_lo().data();
  const int64_t count = TableStride(encoder.planes());
  for (int64_t p = 0; p < count; p += n) {
    const auto a = PhaseTop(hi + p, lo + p, n0, n1);
    const auto b = PhaseTop(hi + p + n / 2, lo + p + n / 2, n0, n1);
    SinCos(hn::ConcatEven(d32, hn::BitCast(d32, b), hn::BitCast(d32, a)),
           cosine + p, sine + p);
  }
  if (ticks < 0) {
    for (int64_t p = 0; p < count; ++p) sine[p] = -sine[p];
  }
}

void PhaseRowReal(const Encoder& encoder, double ticks, float* cosine,
                  float* sine) {
  const Word32 d32;
  const int64_t n = hn::Lanes(d32);
  const int64_t count = TableStride(encoder.planes());
  HWY_ALIGN uint32_t words[16];
  for (int64_t p = 0; p < count; p += n) {
    for (int64_t i = 0; i < n; ++i) {
      const TurnFrequency f{encoder.frequencies_hi()[p + i],
                            encoder.frequencies_lo()[p + i],
                            encoder.whole_turns()[p + i]};
      words[i] = static_cast<uint32_t>(PhaseWord(f, ticks) >> 32);
    }
    SinCos(hn::Load(d32, words), cosine + p, sine + p);
  }
}

// 4 x 4 pieces through 128-bit registers, which every target has.
void PackBlockImpl(const float* HWY_RESTRICT rows, int64_t padded,
                   float* HWY_RESTRICT block) {
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> dd;
  const auto pair = [&](auto a) { return hn::BitCast(dd, a); };
  for (int64_t j = 0; j < kKeyBlock; j += 4) {
    const float* row = rows + j * padded;
    for (int64_t c = 0; c < padded; c += 4) {
      const auto r0 = hn::LoadU(d, row + c);
      const auto r1 = hn::LoadU(d, row + padded + c);
      const auto r2 = hn::LoadU(d, row + 2 * padded + c);
      const auto r3 = hn::LoadU(d, row + 3 * padded + c);
      const auto lo01 = hn::InterleaveLower(d, r0, r1);
      const auto lo23 = hn::InterleaveLower(d, r2, r3);
      const auto hi01 = hn::InterleaveUpper(d, r0, r1);
      const auto hi23 = hn::InterleaveUpper(d, r2, r3);
      float* out = block + c * kKeyBlock + j;
      hn::StoreU(
          hn::BitCast(d, hn::InterleaveLower(dd, pair(lo01), pair(lo23))), d,
          out);
      hn::StoreU(
          hn::BitCast(d, hn::InterleaveUpper(dd, pair(lo01), pair(lo23))), d,
          out + kKeyBlock);
      hn::StoreU(
          hn::BitCast(d, hn::InterleaveLower(dd, pair(hi01), pair(hi23))), d,
          out + 2 * kKeyBlock);
      hn::StoreU(
          hn::BitCast(d, hn::InterleaveUpper(dd, pair(hi01), pair(hi23))), d,
          out + 3 * kKeyBlock);
    }
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

// y0 = x0 cos - x1 sin, y1 = x0 sin + x1 cos over a run of planes.
HWY_INLINE void RotateHalfSplit(const float* HWY_RESTRICT cosine,
                                const float* HWY_RESTRICT sine, int planes,
                                int distance, float* HWY_RESTRICT x) {
  const Lane d;
  const int n = static_cast<int>(hn::Lanes(d));
  int p = 0;
  for (; p + n <= planes; p += n) {
    const auto c = hn::LoadU(d, cosine + p), s = hn::LoadU(d, sine + p);
    const auto x0 = hn::LoadU(d, x + p), x1 = hn::LoadU(d, x + p + distance);
    hn::StoreU(hn::NegMulAdd(x1, s, hn::Mul(x0, c)), d, x + p);
    hn::StoreU(hn::MulAdd(x0, s, hn::Mul(x1, c)), d, x + p + distance);
  }
  for (; p < planes; ++p) {
    const float x0 = x[p], x1 = x[p + distance];
    x[p] = x0 * cosine[p] - x1 * sine[p];
    x[p + distance] = x0 * sine[p] + x1 * cosine[p];
  }
}

HWY_INLINE void RotateInterleaved(const float* HWY_RESTRICT cosine,
                                  const float* HWY_RESTRICT sine, int planes,
                                  float* HWY_RESTRICT x) {
  const Lane d;
  const int n = static_cast<int>(hn::Lanes(d));
  int p = 0;
  for (; p + n <= planes; p += n) {
    const auto c = hn::LoadU(d, cosine + p), s = hn::LoadU(d, sine + p);
    hn::Vec<Lane> x0, x1;
    hn::LoadInterleaved2(d, x + 2 * p, x0, x1);
    hn::StoreInterleaved2(hn::NegMulAdd(x1, s, hn::Mul(x0, c)),
                          hn::MulAdd(x0, s, hn::Mul(x1, c)), d, x + 2 * p);
  }
  for (; p < planes; ++p) {
    const float x0 = x[2 * p], x1 = x[2 * p + 1];
    x[2 * p] = x0 * cosine[p] - x1 * sine[p];
    x[2 * p + 1] = x0 * sine[p] + x1 * cosine[p];
  }
}

void EncodeRowImpl(const Encoder* encoder, const float* cosine,
                   const float* sine, float scale,
                   const float* HWY_RESTRICT src, int64_t dim, int64_t padded,
                   float* HWY_RESTRICT dst) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, scale);
  auto check = hn::Zero(d);
  for (int64_t c = 0; c < padded; c += n) {
    auto x = hn::Zero(d);
    if (c + n <= dim) {
      x = hn::LoadU(d, src + c);
    } else if (c < dim) {
      x = LoadFirst(d, src + c, dim - c);
    }
    // 0 * x is NaN exactly for non-finite x.
    check = hn::MulAdd(x, hn::Zero(d), check);
    hn::StoreU(hn::Mul(x, by), d, dst + c);
  }
  if (!hn::AllTrue(d, hn::Eq(check, hn::Zero(d)))) {
    std::fill(dst, dst + padded, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  if (encoder == nullptr) return;
  for (const Encoder::PlaneGroup& group : encoder->groups()) {
    const float* c = cosine + group.table_offset;
    const float* s = sine + group.table_offset;
    float* x = dst + group.first_channel;
    if (group.layout == PairLayout::kHalfSplit) {
      RotateHalfSplit(c, s, group.planes, group.distance, x);
    } else {
      RotateInterleaved(c, s, group.planes, x);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(PhaseRowTicks);
HWY_EXPORT(PhaseRowReal);
HWY_EXPORT(EncodeRowImpl);
HWY_EXPORT(PackBlockImpl);

void PhaseRow(const Encoder& encoder, int64_t ticks, float* cosine,
              float* sine) {
  HWY_DYNAMIC_DISPATCH(PhaseRowTicks)(encoder, ticks, cosine, sine);
}
void PhaseRow(const Encoder& encoder, double ticks, float* cosine,
              float* sine) {
  HWY_DYNAMIC_DISPATCH(PhaseRowReal)(encoder, ticks, cosine, sine);
}
void EncodeRow(const Encoder* encoder, const float* cosine, const float* sine,
               float scale, const float* src, int64_t dim, int64_t padded,
               float* dst) {
  HWY_DYNAMIC_DISPATCH(EncodeRowImpl)
  (encoder, cosine, sine, scale, src, dim, padded, dst);
}
void PackBlock(const float* rows, int64_t padded, float* block) {
  HWY_DYNAMIC_DISPATCH(PackBlockImpl)(rows, padded, block);
}

}  // namespace attnd
#endif  // HWY_ONCE
