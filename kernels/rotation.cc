#include "kernels/rotation.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/clock.h"
#include "kernels/gemm.h"
#include "kernels/small_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotation.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/finite-inl.h"
#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Lane = hn::CappedTag<float, 16>;

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
void PackBlockImpl(const float* rows, int64_t count, int64_t padded,
                   float* block) {
  std::fill(block, block + padded * kKeyBlock, 0.0f);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t c = 0; c < padded; ++c) {
      block[c * kKeyBlock + j] = rows[j * padded + c];
    }
  }
}

#else  // vectors

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

// Turns of a learned clock, reduced in double, as words.
HWY_INLINE hn::Vec<Word64> ClockWords(const double* turns, double real) {
  const Word64 d64;
  const hn::Repartition<double, Word64> df;
  const hn::Repartition<int64_t, Word64> di;
  const auto t = hn::Mul(hn::LoadU(df, turns), hn::Set(df, real));
  const auto rest = hn::Sub(t, hn::Round(t));  // [-1/2, 1/2]
  return hn::ShiftLeft<12>(
      hn::BitCast(d64, hn::ConvertTo(di, hn::Mul(rest, hn::Set(df, 0x1p52)))));
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
        a = hn::Add(a, ClockWords(&f.turns[p], points[s].real));
        b = hn::Add(b, ClockWords(&f.turns[p + n / 2], points[s].real));
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

// 4 x 4 pieces through 128-bit registers, which every target has.
void PackBlockImpl(const float* HWY_RESTRICT rows, int64_t count,
                   int64_t padded, float* HWY_RESTRICT block) {
  for (int64_t c = 0; count < kKeyBlock && c < padded; ++c) {
    std::fill(block + c * kKeyBlock + count, block + (c + 1) * kKeyBlock, 0.0f);
  }
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> dd;
  const auto pair = [&](auto a) { return hn::BitCast(dd, a); };
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
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
  for (; j < count; ++j) {
    for (int64_t c = 0; c < padded; ++c) {
      block[c * kKeyBlock + j] = rows[j * padded + c];
    }
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

// out = row B, B row-major [dim, dim].
HWY_INLINE void ChangeBasis(const float* HWY_RESTRICT basis,
                            const float* HWY_RESTRICT row, int64_t dim,
                            float* HWY_RESTRICT out) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  for (int64_t c = 0; c < dim; c += n) {
    const auto mask =
        hn::FirstN(d, static_cast<size_t>(std::min<int64_t>(n, dim - c)));
    auto even = hn::Zero(d), odd = hn::Zero(d);
    int64_t i = 0;
    for (; i + 2 <= dim; i += 2) {
      const float* b = basis + i * dim + c;
      even = hn::MulAdd(hn::Set(d, row[i]), hn::MaskedLoad(mask, d, b), even);
      odd = hn::MulAdd(hn::Set(d, row[i + 1]), hn::MaskedLoad(mask, d, b + dim),
                       odd);
    }
    if (i < dim) {
      even = hn::MulAdd(hn::Set(d, row[i]),
                        hn::MaskedLoad(mask, d, basis + i * dim + c), even);
    }
    hn::BlendedStore(hn::Add(even, odd), mask, d, out + c);
  }
}

// dst = scale * src, turned; all NaN if a source or `check` is not finite.
HWY_INLINE void TurnInOrder(const HeadEncoder* head, const float* cosine,
                            const float* sine, float scale, const float* src,
                            int64_t dim, int64_t padded, hn::Vec<Lane> check,
                            float* dst) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, scale);
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
  if (head == nullptr) return;
  for (size_t p = 0; p < head->scale().size(); ++p) dst[p] *= head->scale()[p];
  if (cosine == nullptr) return;
  for (const HeadEncoder::PlaneGroup& group : head->plane_groups()) {
    const float* c = cosine + group.table_offset;
    const float* s = sine + group.table_offset;
    float* x = dst + group.first;
    if (group.layout == PairLayout::kHalfSplit) {
      RotateHalfSplit(c, s, group.planes, group.distance, x);
    } else {
      RotateInterleaved(c, s, group.planes, x);
    }
  }
  HWY_ALIGN float turned[kMaxFreeTurn];
  for (const FreeTurn& turn : head->free_turns()) {
    ChangeBasis(sine + head->table_size() + turn.offset, dst + turn.first,
                turn.size, turned);
    std::copy(turned, turned + turn.size, dst + turn.first);
  }
}

void EncodeRowImpl(const HeadEncoder* head, bool query, const float* cosine,
                   const float* sine, float scale, const float* src,
                   int64_t dim, int64_t padded, float* scratch, float* dst) {
  const Lane d;
  auto check = hn::Zero(d);
  if (head != nullptr) {
    const std::vector<float>* basis =
        query ? &head->query_basis() : &head->key_basis();
    if (!basis->empty()) {
      // A basis could turn infinities into a finite number.
      if (!AllFinite(src, dim)) check = hn::Set(d, 1.0f);
      ChangeBasis(basis->data(), src, dim, scratch);
      src = scratch;
    } else if (!head->order().empty()) {
      for (int64_t p = 0; p < dim; ++p) scratch[p] = src[head->order()[p]];
      src = scratch;
    }
  }
  TurnInOrder(head, cosine, sine, scale, src, dim, padded, check, dst);
}

void EncodePlainRowsImpl(const float* HWY_RESTRICT src, int64_t rows,
                         int64_t dim, int64_t padded, float scale,
                         float* HWY_RESTRICT dst) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, scale);
  for (int64_t r = 0; r < rows; ++r, src += dim, dst += padded) {
    auto check = hn::Zero(d);
    for (int64_t c = 0; c < padded; c += n) {
      auto x = hn::Zero(d);
      if (c + n <= dim) {
        x = hn::LoadU(d, src + c);
      } else if (c < dim) {
        x = LoadFirst(d, src + c, dim - c);
      }
      check = hn::MulAdd(x, hn::Zero(d), check);
      hn::StoreU(hn::Mul(x, by), d, dst + c);
    }
    if (!hn::AllTrue(d, hn::Eq(check, hn::Zero(d)))) {
      std::fill(dst, dst + padded, std::numeric_limits<float>::quiet_NaN());
    }
  }
}

// A row that turns its first 2 * planes channels in halves.
HWY_INLINE void TurnHalves(const RowBatch& batch, int planes,
                           const float* HWY_RESTRICT src,
                           const float* HWY_RESTRICT cosine,
                           float* HWY_RESTRICT dst) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const float* HWY_RESTRICT sine = cosine + batch.head->table_size();
  const auto by = hn::Set(d, batch.scale);
  auto check = hn::Zero(d);
  int64_t p = 0;
  for (; p + n <= planes; p += n) {
    const auto x0 = hn::LoadU(d, src + p);
    const auto x1 = hn::LoadU(d, src + p + planes);
    check = hn::MulAdd(x0, hn::Zero(d), hn::MulAdd(x1, hn::Zero(d), check));
    const auto c = hn::Mul(hn::LoadU(d, cosine + p), by);
    const auto s = hn::Mul(hn::LoadU(d, sine + p), by);
    hn::StoreU(hn::NegMulAdd(x1, s, hn::Mul(x0, c)), d, dst + p);
    hn::StoreU(hn::MulAdd(x0, s, hn::Mul(x1, c)), d, dst + p + planes);
  }
  float rest = 0;
  for (; p < planes; ++p) {
    const float x0 = src[p], x1 = src[p + planes];
    const float c = cosine[p] * batch.scale, s = sine[p] * batch.scale;
    rest += 0 * x0 + 0 * x1;
    dst[p] = x0 * c - x1 * s;
    dst[p + planes] = x0 * s + x1 * c;
  }
  for (int64_t i = 2 * planes; i < batch.dim; ++i) {
    rest += 0 * src[i];
    dst[i] = src[i] * batch.scale;
  }
  std::fill(dst + batch.dim, dst + batch.padded, 0.0f);
  if (rest != 0 || !hn::AllTrue(d, hn::Eq(check, hn::Zero(d)))) {
    std::fill(dst, dst + batch.padded, std::numeric_limits<float>::quiet_NaN());
  }
}

// Rows in another basis: one product for all of them.
HWY_INLINE void EncodeInBasis(const RowBatch& batch,
                              const std::vector<float>& basis) {
  const Lane d;
  Multiply({.a = batch.src,
            .a_stride = batch.stride,
            .b = basis.data(),
            .b_stride = batch.dim,
            .c = batch.scratch,
            .c_stride = batch.padded,
            .rows = batch.rows,
            .depth = batch.dim,
            .columns = batch.dim,
            .exact = true});
  const int64_t table = batch.head->table_size();
  for (int64_t r = 0; r < batch.rows; ++r) {
    const float* cosine =
        batch.phases == nullptr
            ? nullptr
            : batch.phases + int64_t{batch.head->phase_floats()} * r;
    const bool finite = AllFinite(batch.src + r * batch.stride, batch.dim);
    TurnInOrder(batch.head, cosine, cosine + table, batch.scale,
                batch.scratch + r * batch.padded, batch.dim, batch.padded,
                finite ? hn::Zero(d) : hn::Set(d, 1.0f),
                batch.dst + r * batch.padded);
  }
}

void EncodeRowsImpl(const RowBatch& batch) {
  const HeadEncoder& head = *batch.head;
  const std::vector<float>& basis =
      batch.query ? head.query_basis() : head.key_basis();
  if (!basis.empty() && batch.dim % kProductColumns == 0) {
    return EncodeInBasis(batch, basis);
  }
  const int64_t table = head.table_size();
  const int planes = batch.phases == nullptr ? -1 : head.half_split_planes();
  for (int64_t r = 0; r < batch.rows; ++r) {
    const float* src = batch.src + r * batch.stride;
    float* dst = batch.dst + r * batch.padded;
    const float* cosine =
        batch.phases == nullptr
            ? nullptr
            : batch.phases + int64_t{batch.head->phase_floats()} * r;
    if (planes >= 0) {
      TurnHalves(batch, planes, src, cosine, dst);
    } else {
      EncodeRowImpl(&head, batch.query, cosine, cosine + table, batch.scale,
                    src, batch.dim, batch.padded, batch.scratch, dst);
    }
  }
}

bool AllFiniteImpl(const float* values, int64_t count) {
  return AllFinite(values, count);
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
    const auto from_turns = [](double t) {
      return static_cast<uint64_t>(
                 static_cast<int64_t>((t - std::nearbyint(t)) * 0x1p52))
             << 12;
    };
    switch (points[s].kind) {
      case PhasePoint::Kind::kTicks:
        word += PhaseWord(turns, points[s].ticks);
        break;
      case PhasePoint::Kind::kReal:
        word += PhaseWord(turns, points[s].real);
        break;
      case PhasePoint::Kind::kClock:
        word += from_turns(f.turns[plane] * points[s].real);
        break;
      case PhasePoint::Kind::kHf: {
        const float angle = static_cast<float>(points[s].real) *
                            static_cast<float>(f.omega[plane]);
        word += from_turns(static_cast<double>(angle) / (2 * M_PI));
        break;
      }
    }
  }
  return word;
}

HWY_EXPORT(PhaseRowsImpl);
HWY_EXPORT(EncodeRowImpl);
HWY_EXPORT(PackBlockImpl);
HWY_EXPORT(EncodePlainRowsImpl);
HWY_EXPORT(EncodeRowsImpl);
HWY_EXPORT(AllFiniteImpl);

void PhaseRows(const HeadEncoder& head, const PhasePoint* points, int64_t rows,
               float* phases) {
  HWY_DYNAMIC_DISPATCH(PhaseRowsImpl)(head, points, rows, phases);
}
void EncodeRow(const HeadEncoder* head, bool query, const float* cosine,
               const float* sine, float scale, const float* src, int64_t dim,
               int64_t padded, float* scratch, float* dst) {
  HWY_DYNAMIC_DISPATCH(EncodeRowImpl)
  (head, query, cosine, sine, scale, src, dim, padded, scratch, dst);
}
void EncodePlainRows(const float* src, int64_t rows, int64_t dim,
                     int64_t padded, float scale, float* dst) {
  HWY_DYNAMIC_DISPATCH(EncodePlainRowsImpl)
  (src, rows, dim, padded, scale, dst);
}
void EncodeRows(const RowBatch& batch) {
  HWY_DYNAMIC_DISPATCH(EncodeRowsImpl)(batch);
}
bool FiniteValues(const float* values, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteImpl)(values, count);
}
void PackBlock(const float* rows, int64_t count, int64_t padded, float* block) {
  HWY_DYNAMIC_DISPATCH(PackBlockImpl)(rows, count, padded, block);
}

}  // namespace attnd
#endif  // HWY_ONCE
