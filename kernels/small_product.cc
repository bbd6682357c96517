#include "kernels/small_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/small_product.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Lane = hn::CappedTag<float, kProductColumns>;
using Vector = hn::Vec<Lane>;

// As many terms a run as there are runs is best.
constexpr int64_t kRun = 8, kLongRun = 16, kMostOfShortRuns = 64;

// Accumulators of kRows x kVectors stay in registers.
template <int kRows, int kVectors, bool kExact>
HWY_INLINE void MultiplyPiece(const SmallProduct& p, int64_t row,
                              int64_t column) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const float* HWY_RESTRICT a = p.a + row * p.a_stride;
  const float* HWY_RESTRICT b = p.b + column;
  float* HWY_RESTRICT c = p.c + row * p.c_stride + column;
  Vector sum[kRows][kVectors];
  for (auto& of_row : sum) {
    for (Vector& part : of_row) part = hn::Zero(d);
  }
  const auto add = [&](int64_t first, int64_t last,
                       Vector(&into)[kRows][kVectors]) HWY_ATTR {
    for (int64_t k = first; k < last; ++k, b += p.b_stride) {
      Vector x[kVectors];
      for (int v = 0; v < kVectors; ++v) x[v] = hn::LoadU(d, b + v * n);
      for (int r = 0; r < kRows; ++r) {
        const Vector by = hn::Set(d, a[r * p.a_stride + k]);
        for (int v = 0; v < kVectors; ++v) {
          into[r][v] = hn::MulAdd(by, x[v], into[r][v]);
        }
      }
    }
  };
  if constexpr (kExact) {
    const int64_t length = p.depth <= kMostOfShortRuns ? kRun : kLongRun;
    for (int64_t k = 0; k < p.depth; k += length) {
      Vector run[kRows][kVectors];
      for (auto& of_row : run) {
        for (Vector& part : of_row) part = hn::Zero(d);
      }
      add(k, k + length < p.depth ? k + length : p.depth, run);
      for (int r = 0; r < kRows; ++r) {
        for (int v = 0; v < kVectors; ++v) {
          sum[r][v] = hn::Add(sum[r][v], run[r][v]);
        }
      }
    }
  } else {
    add(0, p.depth, sum);
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* to = c + r * p.c_stride + v * n;
      // Last: small terms one by one would all be lost on a large sum.
      if (p.accumulate) sum[r][v] = hn::Add(hn::LoadU(d, to), sum[r][v]);
      hn::StoreU(sum[r][v], d, to);
    }
  }
}

// All rows of some columns.
template <int kRows, int kVectors, bool kExact>
HWY_INLINE void MultiplyStrip(const SmallProduct& p, int64_t column) {
  int64_t row = 0;
  for (; row + kRows <= p.rows; row += kRows) {
    MultiplyPiece<kRows, kVectors, kExact>(p, row, column);
  }
  for (; row + 2 <= p.rows; row += 2) {
    MultiplyPiece<2, kVectors, kExact>(p, row, column);
  }
  if (row < p.rows) MultiplyPiece<1, kVectors, kExact>(p, row, column);
}

template <bool kExact>
HWY_INLINE void MultiplyAll(const SmallProduct& p) {
  const int64_t n = hn::Lanes(Lane());
  int64_t column = 0;
#if HWY_TARGET == HWY_AVX2
  // Of 16 registers 12 are sums: fewer would wait for their own additions.
  // Exact ones are two each.
  constexpr int kRows = kExact ? 3 : 4;
  if constexpr (!kExact) {
    for (; column + 4 * n <= p.columns; column += 4 * n) {
      MultiplyStrip<3, 4, false>(p, column);
    }
  }
#else
  constexpr int kMost = HWY_TARGET <= HWY_AVX3 ? kProductRows : 4;
  constexpr int kRows = kExact ? kMost / 2 : kMost;
#endif
  for (; column + 2 * n <= p.columns; column += 2 * n) {
    MultiplyStrip<kRows, 2, kExact>(p, column);
  }
  for (; column < p.columns; column += n) {
    MultiplyStrip<kRows, 1, kExact>(p, column);
  }
}

void MultiplyImpl(const SmallProduct& p) {
  p.exact ? MultiplyAll<true>(p) : MultiplyAll<false>(p);
}

// Each lane sums its own terms: short runs, then their sum.
HWY_INLINE float Dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                     int64_t depth) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  Vector s0 = hn::Zero(d), s1 = hn::Zero(d);
  int64_t k = 0;
  for (; k + 2 * n <= depth; k += 2 * n) {
    s0 = hn::MulAdd(hn::LoadU(d, a + k), hn::LoadU(d, b + k), s0);
    s1 = hn::MulAdd(hn::LoadU(d, a + k + n), hn::LoadU(d, b + k + n), s1);
  }
  for (; k + n <= depth; k += n) {
    s0 = hn::MulAdd(hn::LoadU(d, a + k), hn::LoadU(d, b + k), s0);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
  for (; k < depth; ++k) sum += a[k] * b[k];
  return sum;
}

void MultiplyTransposedImpl(const SmallProduct& p) {
  for (int64_t j = 0; j < p.columns; ++j) {
    for (int64_t r = 0; r < p.rows; ++r) {
      const float sum =
          Dot(p.a + r * p.a_stride, p.b + j * p.b_stride, p.depth);
      // inf - inf and 0 * inf are NaN.
      p.c[r * p.c_stride + j] = sum + 0.0f * sum;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(MultiplyImpl);
HWY_EXPORT(MultiplyTransposedImpl);

void Multiply(const SmallProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyImpl)(product);
}

void MultiplyTransposed(const SmallProduct& product) {
  HWY_DYNAMIC_DISPATCH(MultiplyTransposedImpl)(product);
}

}  // namespace attnd
#endif  // HWY_ONCE
