#include "kernels/chains.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/matrix_exp.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chains.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/exp-inl.h"
#include "kernels/jets-inl.h"
#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

using Lane = hn::CappedTag<float, kKeyGroup>;
using Vector = hn::Vec<Lane>;

// tau[source * width] of `live` chains, at most a vector, from `chain` on.
HWY_INLINE Vector ChainLags(const HeadEncoder& head, int64_t chain,
                            int64_t live, const float* HWY_RESTRICT tau,
                            int64_t width) {
  const Lane d;
  const int common = head.common_source();
  if (common >= 0) return hn::Set(d, tau[common * width]);
  HWY_ALIGN float lags[kKeyGroup];
  for (int64_t l = 0; l < live; ++l) {
    lags[l] = tau[head.chain_sources()[chain + l] * width];
  }
  return LoadFirst(d, lags, live);
}

void MakeFactorsImpl(const HeadEncoder& head, const float* HWY_RESTRICT tau,
                     float* HWY_RESTRICT factors) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const auto count = static_cast<int64_t>(head.rates().size());
  float* z = factors + count;
  const float* rates = head.rates().data();
  const float* couplings = head.couplings().data();
  for (int64_t i = 0; i < count; i += n) {
    const int64_t live = std::min<int64_t>(n, count - i);
    const Vector lag = ChainLags(head, i, live, tau, 1);
    const Vector rate = LoadFirst(d, rates + i, live);
    StoreFirst(DecayExp(d, rate, lag), d, factors + i, live);
    if (!head.coupled()) continue;
    StoreFirst(hn::Mul(LoadFirst(d, couplings + i, live), lag), d, z + i, live);
  }
}

// Calls f with how often the chains of a group repeat, 1 or 2, as a constant.
template <typename F>
HWY_INLINE void WithRepeats(const HeadEncoder::ChainGroup& group, F&& f) {
  return group.halves_alike ? f(std::integral_constant<int, 2>())
                            : f(std::integral_constant<int, 1>());
}

// One row; lanes over the chains of a group. `factors_of(chain, live, e, z)`
// gives the factors of `live` chains, at most a vector.
template <int kOrder, int kRepeats, typename Factors>
HWY_INLINE void AdvanceGroup(const HeadEncoder::ChainGroup& group,
                             Factors&& factors_of, const float* in,
                             float* out) {
  const Lane d;
  const int64_t n = hn::Lanes(d), count = group.count;
  const int64_t period = count / kRepeats;
  Vector e, z, x[kOrder], y[kOrder];
  int64_t i = 0;
  for (; i + n <= period; i += n) {
    factors_of(group.factor_offset + i, n, e, z);
    for (int k = 0; k < kRepeats; ++k) {
      const int64_t p = i + k * period;
      for (int r = 0; r < kOrder; ++r) x[r] = hn::LoadU(d, in + r * count + p);
      Polynomial<true, kOrder>(d, e, z, x, y);
      for (int r = 0; r < kOrder; ++r) hn::StoreU(y[r], d, out + r * count + p);
    }
  }
  if (i == period) return;
  const int64_t left = count - i;
  factors_of(group.factor_offset + i, left, e, z);
  for (int r = 0; r < kOrder; ++r) {
    x[r] = LoadFirst(d, in + r * count + i, left);
  }
  Polynomial<true, kOrder>(d, e, z, x, y);
  for (int r = 0; r < kOrder; ++r) {
    StoreFirst(y[r], d, out + r * count + i, left);
  }
}

template <typename Factors>
HWY_INLINE void AdvanceRow(const HeadEncoder& head, Factors&& factors_of,
                           const float* in, int64_t stride, float* out) {
  int64_t done = 0;  // positions written
  for (const HeadEncoder::ChainGroup& group : head.chain_groups()) {
    if (in != out) std::copy(in + done, in + group.first, out + done);
    done = group.first + int64_t{group.order} * group.count;
    WithRepeats(group, [&](auto repeats) HWY_ATTR {
      WithOrder(group.order, [&](auto order) HWY_ATTR {
        AdvanceGroup<order, repeats>(group, factors_of, in + group.first,
                                     out + group.first);
      });
    });
  }
  if (in != out) std::copy(in + done, in + stride, out + done);
}

void AdvanceQueriesImpl(const HeadEncoder& head, const float* factors,
                        const float* src, int rows, int64_t stride,
                        float* dst) {
  const Lane d;
  const float* all_z = factors + head.rates().size();
  for (int row = 0; row < rows; ++row) {
    AdvanceRow(
        head,
        [&](int64_t chain, int64_t live, Vector& e, Vector& z) HWY_ATTR {
          e = LoadFirst(d, factors + chain, live);
          z = LoadFirst(d, all_z + chain, live);
        },
        src + row * stride, stride, dst + row * stride);
  }
}

void AdvanceQueriesByRowImpl(const HeadEncoder& head,
                             const float* HWY_RESTRICT tau, const float* src,
                             int rows, int64_t stride, float* dst) {
  const Lane d;
  for (int row = 0; row < rows; ++row) {
    AdvanceRow(
        head,
        [&](int64_t chain, int64_t live, Vector& e, Vector& z) HWY_ATTR {
          const Vector lag = ChainLags(head, chain, live, tau + row, rows);
          e = DecayExp(d, LoadFirst(d, head.rates().data() + chain, live), lag);
          z = hn::Mul(lag, LoadFirst(d, head.couplings().data() + chain, live));
        },
        src + row * stride, stride, dst + row * stride);
  }
}

// Lanes over keys, one chain of a group at a time. `factors_of(chain, column,
// e, z)` gives the factors of a vector of keys.
template <int kOrder, int kRepeats, typename Factors>
HWY_INLINE void AdvanceGroupColumns(const HeadEncoder::ChainGroup& group,
                                    Factors&& factors_of, const float* src,
                                    int64_t src_width, int width, float* dst,
                                    int64_t dst_width) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const int period = group.count / kRepeats;
  for (int i = 0; i < period; ++i) {
    const float* in = src + (group.first + i) * src_width;
    float* out = dst + (group.first + i) * dst_width;
    for (int64_t j = 0; j < width; j += n) {
      Vector e, z, x[kOrder], y[kOrder];
      factors_of(group.factor_offset + i, j, e, z);
      for (int k = 0; k < kRepeats; ++k) {
        const int64_t source = k * period * src_width + j;
        const int64_t target = k * period * dst_width + j;
        for (int r = 0; r < kOrder; ++r) {
          x[r] = hn::LoadU(d, in + r * group.count * src_width + source);
        }
        Polynomial<false, kOrder>(d, e, z, x, y);
        for (int r = 0; r < kOrder; ++r) {
          hn::StoreU(y[r], d, out + r * group.count * dst_width + target);
        }
      }
    }
  }
}

template <typename Factors>
HWY_INLINE void AdvanceColumns(const HeadEncoder& head, Factors&& factors_of,
                               const float* src, int64_t src_width, int width,
                               float* dst, int64_t dst_width) {
  for (const HeadEncoder::ChainGroup& group : head.chain_groups()) {
    WithRepeats(group, [&](auto repeats) HWY_ATTR {
      WithOrder(group.order, [&](auto order) HWY_ATTR {
        AdvanceGroupColumns<order, repeats>(group, factors_of, src, src_width,
                                            width, dst, dst_width);
      });
    });
  }
}

// Rows of a block that belong to no chain.
HWY_INLINE void CopyOtherRows(const HeadEncoder& head, const float* src,
                              int64_t src_width, int64_t positions, int width,
                              float* dst, int64_t dst_width) {
  if (src == dst) return;
  const Lane d;
  const int64_t n = hn::Lanes(d);
  int64_t p = 0;
  const auto copy_until = [&](int64_t end) {
    for (; p < end; ++p) {
      for (int64_t j = 0; j < width; j += n) {
        hn::StoreU(hn::LoadU(d, src + p * src_width + j), d,
                   dst + p * dst_width + j);
      }
    }
  };
  for (const HeadEncoder::ChainGroup& group : head.chain_groups()) {
    copy_until(group.first);
    p = group.first + int64_t{group.order} * group.count;
  }
  copy_until(positions);
}

void AdvanceKeysImpl(const HeadEncoder& head, const float* factors,
                     const float* src, int64_t src_width, int64_t positions,
                     int width, float* dst, int64_t dst_width) {
  const Lane d;
  CopyOtherRows(head, src, src_width, positions, width, dst, dst_width);
  const float* all_z = factors + head.rates().size();
  AdvanceColumns(
      head,
      [&](int chain, int64_t, Vector& e, Vector& z) {
        e = hn::Set(d, factors[chain]);
        z = hn::Set(d, all_z[chain]);
      },
      src, src_width, width, dst, dst_width);
}

void AdvanceKeysByColumnImpl(const HeadEncoder& head, const float* tau,
                             const float* src, int64_t src_width,
                             int64_t positions, int width, float* dst,
                             int64_t dst_width) {
  const Lane d;
  CopyOtherRows(head, src, src_width, positions, width, dst, dst_width);
  AdvanceColumns(
      head,
      [&](int chain, int64_t j, Vector& e, Vector& z) {
        const Vector lag =
            hn::LoadU(d, tau + head.chain_sources()[chain] * width + j);
        e = DecayExp(d, hn::Set(d, head.rates()[chain]), lag);
        z = hn::Mul(lag, hn::Set(d, head.couplings()[chain]));
      },
      src, src_width, width, dst, dst_width);
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(MakeFactorsImpl);
HWY_EXPORT(AdvanceQueriesImpl);
HWY_EXPORT(AdvanceQueriesByRowImpl);
HWY_EXPORT(AdvanceKeysImpl);
HWY_EXPORT(AdvanceKeysByColumnImpl);

// y = M x or M^T x on strided vectors, in place.
void ApplyMatrix(const float* matrix, int size, bool transposed, float* x,
                 int64_t stride) {
  std::vector<double> y(size, 0.0);
  for (int r = 0; r < size; ++r) {
    for (int c = 0; c < size; ++c) {
      const float m = matrix[transposed ? c * size + r : r * size + c];
      y[r] += static_cast<double>(m) * x[c * stride];
    }
  }
  for (int r = 0; r < size; ++r) x[r * stride] = static_cast<float>(y[r]);
}

std::vector<float> SmallMatrix(const HeadEncoder::Small& small, double tau,
                               bool mirrored) {
  const std::vector<double> exp = SmallExp(small, tau, mirrored);
  return {exp.begin(), exp.end()};
}

int64_t ChainFloats(const HeadEncoder& head) {
  return 2 * static_cast<int64_t>(head.rates().size());
}

}  // namespace

std::vector<double> SmallExp(const HeadEncoder::Small& small, double tau,
                             bool mirrored) {
  return MatrixExp(mirrored ? small.mirrored : small.matrix, small.size, tau);
}

int64_t FactorCount(const HeadEncoder& head) {
  int64_t count = ChainFloats(head);
  for (const HeadEncoder::Small& small : head.smalls()) {
    count += int64_t{small.size} * small.size;
  }
  return count;
}

void MakeFactors(const HeadEncoder& head, const SourceLags& lags, bool mirrored,
                 float* factors) {
  HWY_DYNAMIC_DISPATCH(MakeFactorsImpl)(head, lags.rounded(), factors);
  float* out = factors + ChainFloats(head);
  for (const HeadEncoder::Small& small : head.smalls()) {
    const std::vector<double> exp =
        SmallExp(small, lags.exact(small.source), mirrored);
    out = std::copy(exp.begin(), exp.end(), out);
  }
}

void AdvanceQueries(const HeadEncoder& head, const float* factors,
                    const float* src, int rows, int64_t stride, float* dst) {
  HWY_DYNAMIC_DISPATCH(AdvanceQueriesImpl)
  (head, factors, src, rows, stride, dst);
  const float* matrix = factors + ChainFloats(head);
  for (const HeadEncoder::Small& small : head.smalls()) {
    for (int r = 0; r < rows; ++r) {
      ApplyMatrix(matrix, small.size, true, dst + r * stride + small.first, 1);
    }
    matrix += int64_t{small.size} * small.size;
  }
}

void AdvanceQueriesByRow(const HeadEncoder& head, const SourceLags& lags,
                         bool mirrored, const float* src, int rows,
                         int64_t stride, float* dst) {
  HWY_DYNAMIC_DISPATCH(AdvanceQueriesByRowImpl)
  (head, lags.rounded(), src, rows, stride, dst);
  for (const HeadEncoder::Small& small : head.smalls()) {
    for (int r = 0; r < rows; ++r) {
      const std::vector<float> matrix =
          SmallMatrix(small, lags.exact(small.source * rows + r), mirrored);
      ApplyMatrix(matrix.data(), small.size, true,
                  dst + r * stride + small.first, 1);
    }
  }
}

void AdvanceKeys(const HeadEncoder& head, const float* factors,
                 const float* src, int64_t src_width, int64_t positions,
                 int width, float* dst, int64_t dst_width) {
  HWY_DYNAMIC_DISPATCH(AdvanceKeysImpl)
  (head, factors, src, src_width, positions, width, dst, dst_width);
  const float* matrix = factors + ChainFloats(head);
  for (const HeadEncoder::Small& small : head.smalls()) {
    for (int j = 0; j < width; ++j) {
      ApplyMatrix(matrix, small.size, false, dst + small.first * dst_width + j,
                  dst_width);
    }
    matrix += int64_t{small.size} * small.size;
  }
}

void AdvanceKeysByColumn(const HeadEncoder& head, const SourceLags& lags,
                         bool mirrored, const float* src, int64_t src_width,
                         int64_t positions, int width, float* dst,
                         int64_t dst_width) {
  HWY_DYNAMIC_DISPATCH(AdvanceKeysByColumnImpl)
  (head, lags.rounded(), src, src_width, positions, width, dst, dst_width);
  for (const HeadEncoder::Small& small : head.smalls()) {
    for (int j = 0; j < width; ++j) {
      const std::vector<float> matrix =
          SmallMatrix(small, lags.exact(small.source * width + j), mirrored);
      ApplyMatrix(matrix.data(), small.size, false,
                  dst + int64_t{small.first} * dst_width + j, dst_width);
    }
  }
}

}  // namespace attnd
#endif  // HWY_ONCE
