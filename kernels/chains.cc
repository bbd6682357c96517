#include "kernels/chains.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/matrix_exp.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chains.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

using Lane = hn::CappedTag<float, kKeyGroup>;
using Vector = hn::Vec<Lane>;

constexpr int kMaxOrder = 4;

// y_r = e sum_{i<=r} z^i / i! x_{r-i} (transposed) or x_{r+i}. Where e is 0 the
// result is 0 even if a power overflowed.
template <bool kTransposed, int kOrder>
HWY_INLINE void Polynomial(Lane d, Vector e, Vector z, const Vector* x,
                           Vector* y) {
  Vector power[kOrder];
  power[0] = e;
  if constexpr (kOrder > 1) {
    const auto alive = hn::Gt(e, hn::Zero(d));
    for (int i = 1; i < kOrder; ++i) {
      power[i] = hn::IfThenElseZero(
          alive, hn::Mul(power[i - 1],
                         hn::Mul(z, hn::Set(d, 1.0f / static_cast<float>(i)))));
    }
  }
  for (int r = 0; r < kOrder; ++r) {
    Vector sum = hn::Mul(power[0], x[r]);
    const int terms = kTransposed ? r : kOrder - 1 - r;
    for (int i = 1; i <= terms; ++i) {
      sum = hn::MulAdd(power[i], x[kTransposed ? r - i : r + i], sum);
    }
    y[r] = sum;
  }
}

// Calls f with the order of a group as a constant.
template <typename F>
HWY_INLINE void WithOrder(int order, F&& f) {
  switch (order) {
    case 1:
      return f(std::integral_constant<int, 1>());
    case 2:
      return f(std::integral_constant<int, 2>());
    case 3:
      return f(std::integral_constant<int, 3>());
    default:
      return f(std::integral_constant<int, kMaxOrder>());
  }
}

void MakeFactorsImpl(const HeadEncoder& head, const float* HWY_RESTRICT tau,
                     float* HWY_RESTRICT factors) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const auto count = static_cast<int64_t>(head.rates().size());
  float* z = factors + count;
  const float* rates = head.rates().data();
  const float* couplings = head.couplings().data();
  HWY_ALIGN float lags[kKeyGroup];
  const int common = head.common_source();
  for (int64_t i = 0; i < count; i += n) {
    const auto live = static_cast<size_t>(std::min<int64_t>(n, count - i));
    const auto mask = hn::FirstN(d, live);
    Vector lag;
    if (common >= 0) {
      lag = hn::Set(d, tau[common]);
    } else {
      for (size_t l = 0; l < live; ++l) {
        lags[l] = tau[head.chain_sources()[i + l]];
      }
      lag = hn::MaskedLoad(mask, d, lags);
    }
    const Vector rate = hn::MaskedLoad(mask, d, rates + i);
    hn::BlendedStore(Exp(d, hn::Neg(hn::Mul(rate, lag))), mask, d, factors + i);
    if (!head.coupled()) continue;
    hn::BlendedStore(hn::Mul(hn::MaskedLoad(mask, d, couplings + i), lag), mask,
                     d, z + i);
  }
}

// One row; lanes over the chains of a group.
template <int kOrder>
HWY_INLINE void AdvanceGroup(const HeadEncoder::ChainGroup& group,
                             const float* HWY_RESTRICT e,
                             const float* HWY_RESTRICT z, const float* in,
                             float* out) {
  const Lane d;
  const int64_t n = hn::Lanes(d), count = group.count;
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    Vector x[kOrder], y[kOrder];
    for (int r = 0; r < kOrder; ++r) x[r] = hn::LoadU(d, in + r * count + i);
    const Vector zi = kOrder > 1 ? hn::LoadU(d, z + i) : hn::Zero(d);
    Polynomial<true, kOrder>(d, hn::LoadU(d, e + i), zi, x, y);
    for (int r = 0; r < kOrder; ++r) hn::StoreU(y[r], d, out + r * count + i);
  }
  if (i == count) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
  Vector x[kOrder], y[kOrder];
  for (int r = 0; r < kOrder; ++r) {
    x[r] = hn::MaskedLoad(mask, d, in + r * count + i);
  }
  const Vector zi = kOrder > 1 ? hn::MaskedLoad(mask, d, z + i) : hn::Zero(d);
  Polynomial<true, kOrder>(d, hn::MaskedLoad(mask, d, e + i), zi, x, y);
  for (int r = 0; r < kOrder; ++r) {
    hn::BlendedStore(y[r], mask, d, out + r * count + i);
  }
}

void AdvanceQueriesImpl(const HeadEncoder& head, const float* factors,
                        const float* src, int rows, int64_t stride,
                        float* dst) {
  const float* all_z = factors + head.rates().size();
  for (int row = 0; row < rows; ++row) {
    const float* in = src + row * stride;
    float* out = dst + row * stride;
    int64_t done = 0;  // positions written
    for (const HeadEncoder::ChainGroup& group : head.chain_groups()) {
      if (in != out) std::copy(in + done, in + group.first, out + done);
      done = group.first + int64_t{group.order} * group.count;
      WithOrder(group.order, [&](auto order) HWY_ATTR {
        AdvanceGroup<order>(group, factors + group.factor_offset,
                            all_z + group.factor_offset, in + group.first,
                            out + group.first);
      });
    }
    if (in != out) std::copy(in + done, in + stride, out + done);
  }
}

// Lanes over keys, one chain of a group at a time.
template <int kOrder, typename Factors>
HWY_INLINE void AdvanceGroupColumns(const HeadEncoder::ChainGroup& group,
                                    Factors&& factors_of, const float* src,
                                    int64_t src_width, int width, float* dst,
                                    int64_t dst_width) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  for (int i = 0; i < group.count; ++i) {
    const float* in = src + (group.first + i) * src_width;
    float* out = dst + (group.first + i) * dst_width;
    for (int64_t j = 0; j < width; j += n) {
      Vector e, z, x[kOrder], y[kOrder];
      factors_of(group.factor_offset + i, j, e, z);
      for (int r = 0; r < kOrder; ++r) {
        x[r] = hn::LoadU(d, in + r * group.count * src_width + j);
      }
      Polynomial<false, kOrder>(d, e, z, x, y);
      for (int r = 0; r < kOrder; ++r) {
        hn::StoreU(y[r], d, out + r * group.count * dst_width + j);
      }
    }
  }
}

// `factors_of(chain, column, e, z)` gives the factors of a vector of keys.
template <typename Factors>
HWY_INLINE void AdvanceColumns(const HeadEncoder& head, Factors&& factors_of,
                               const float* src, int64_t src_width, int width,
                               float* dst, int64_t dst_width) {
  for (const HeadEncoder::ChainGroup& group : head.chain_groups()) {
    WithOrder(group.order, [&](auto order) HWY_ATTR {
      AdvanceGroupColumns<order>(group, factors_of, src, src_width, width, dst,
                                 dst_width);
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
        e = Exp(d, hn::Mul(lag, hn::Set(d, -head.rates()[chain])));
        z = hn::Mul(lag, hn::Set(d, head.couplings()[chain]));
      },
      src, src_width, width, dst, dst_width);
}

// sum + q^T A k over the jets of one chain, the first at q and k.
HWY_INLINE Vector AddChain(Lane d, const HeadEncoder::ChainGroup& group,
                           Vector e, Vector z, const float* HWY_RESTRICT q,
                           const float* HWY_RESTRICT k, int64_t k_width,
                           Vector sum) {
  WithOrder(group.order, [&](auto order) HWY_ATTR {
    Vector x[order], y[order];
    for (int r = 0; r < order; ++r) {
      x[r] = hn::LoadU(d, k + r * group.count * k_width);
    }
    Polynomial<false, order>(d, e, z, x, y);
    for (int r = 0; r < order; ++r) {
      sum = hn::MulAdd(hn::Set(d, q[r * group.count]), y[r], sum);
    }
  });
  return sum;
}

void PairLogitsImpl(const HeadEncoder& head, const float* HWY_RESTRICT q,
                    const float* HWY_RESTRICT k, int64_t k_width,
                    int64_t positions, const float* HWY_RESTRICT tau,
                    float* HWY_RESTRICT logits) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  for (int64_t j = 0; j < kKeyGroup; j += n) {
    Vector sum = hn::Zero(d), other = hn::Zero(d);
    int64_t done = 0;  // positions below belong to a chain group already seen
    const auto plain = [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        sum = hn::MulAdd(hn::Set(d, q[p]), hn::LoadU(d, k + p * k_width + j),
                         sum);
      }
    };
    for (const HeadEncoder::ChainGroup& group : head.chain_groups()) {
      plain(done, group.first);
      done = group.first + int64_t{group.order} * group.count;
      for (int i = 0; i < group.count; ++i) {
        const int chain = group.factor_offset + i;
        const Vector lag = hn::Abs(
            hn::LoadU(d, tau + head.chain_sources()[chain] * kKeyGroup + j));
        const Vector e = Exp(d, hn::Mul(lag, hn::Set(d, -head.rates()[chain])));
        const int64_t p = group.first + i;
        if (group.order == 1) {
          const Vector term =
              hn::Mul(hn::Set(d, q[p]), hn::LoadU(d, k + p * k_width + j));
          other = hn::MulAdd(e, term, other);
          continue;
        }
        const Vector z = hn::Mul(lag, hn::Set(d, head.couplings()[chain]));
        other = AddChain(d, group, e, z, q + p, k + p * k_width + j, k_width,
                         other);
      }
    }
    plain(done, positions);
    hn::StoreU(hn::Add(sum, other), d, logits + j);
  }
}

// logits[j] += share of single chains.
void AddChainLogitsImpl(const HeadEncoder& head, const int* chains, int count,
                        const float* HWY_RESTRICT q,
                        const float* HWY_RESTRICT k, int64_t k_width,
                        const float* HWY_RESTRICT tau,
                        float* HWY_RESTRICT logits) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  for (int64_t j = 0; j < kKeyGroup; j += n) {
    Vector sum = hn::LoadU(d, logits + j);
    for (int c = 0; c < count; ++c) {
      const int chain = chains[c];
      const Vector lag = hn::Abs(
          hn::LoadU(d, tau + head.chain_sources()[chain] * kKeyGroup + j));
      const Vector e = Exp(d, hn::Mul(lag, hn::Set(d, -head.rates()[chain])));
      const HeadEncoder::ChainGroup& group = head.group_of(chain);
      const int64_t p = group.first + chain - group.factor_offset;
      if (group.order == 1) {
        sum = hn::MulAdd(hn::Mul(e, hn::Set(d, q[p])),
                         hn::LoadU(d, k + p * k_width + j), sum);
        continue;
      }
      const Vector z = hn::Mul(lag, hn::Set(d, head.couplings()[chain]));
      sum = AddChain(d, group, e, z, q + p, k + p * k_width + j, k_width, sum);
    }
    hn::StoreU(sum, d, logits + j);
  }
}

void AddDecayLogitsImpl(const HeadEncoder& head, const int* chains, int count,
                        const Interleaving& times, const float* HWY_RESTRICT q,
                        int rows, int64_t stride, const float* HWY_RESTRICT k,
                        int64_t k_width, float* HWY_RESTRICT logits,
                        int64_t logit_stride) {
  const Lane d;
  const hn::RebindToSigned<Lane> di;
  const int64_t n = hn::Lanes(d);
  HWY_ALIGN float step[kKeyGroup];
  for (int c = 0; c < count; ++c) {
    const int chain = chains[c];
    const HeadEncoder::ChainGroup& group = head.group_of(chain);
    const int64_t p = group.first + chain - group.factor_offset;
    const Vector rate = hn::Set(d, -head.rates()[chain]);
    for (int64_t j = 0; j < kKeyGroup; j += n) {
      hn::Store(Exp(d, hn::Mul(rate, hn::Load(d, times.gap + j))), d, step + j);
    }
    for (int64_t j = 0; j < kKeyGroup; j += n) {
      const Vector entering =
          hn::Mul(Exp(d, hn::Mul(rate, hn::Load(d, times.entry_lag + j))),
                  hn::LoadU(d, k + p * k_width + j));
      const auto row_of = hn::Load(di, times.entry_row + j);
      Vector moved = hn::Zero(d);
      for (int r = 0; r < rows; ++r) {
        const auto enters = hn::RebindMask(d, hn::Eq(row_of, hn::Set(di, r)));
        moved = hn::IfThenElse(enters, entering,
                               hn::Mul(moved, hn::Set(d, step[r])));
        float* out = logits + r * logit_stride + j;
        hn::StoreU(
            hn::MulAdd(hn::Set(d, q[r * stride + p]), moved, hn::LoadU(d, out)),
            d, out);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(MakeFactorsImpl);
HWY_EXPORT(AdvanceQueriesImpl);
HWY_EXPORT(AdvanceKeysImpl);
HWY_EXPORT(AdvanceKeysByColumnImpl);
HWY_EXPORT(PairLogitsImpl);
HWY_EXPORT(AddChainLogitsImpl);
HWY_EXPORT(AddDecayLogitsImpl);

std::vector<double> SmallExp(const HeadEncoder::Small& small, double tau,
                             bool mirrored) {
  return MatrixExp(mirrored ? small.mirrored : small.matrix, small.size, tau);
}

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

int64_t ChainFloats(const HeadEncoder& head) {
  return 2 * static_cast<int64_t>(head.rates().size());
}

}  // namespace

int64_t FactorCount(const HeadEncoder& head) {
  int64_t count = ChainFloats(head);
  for (const HeadEncoder::Small& small : head.smalls()) {
    count += int64_t{small.size} * small.size;
  }
  return count;
}

void MakeFactors(const HeadEncoder& head, const float* tau, bool mirrored,
                 float* factors) {
  HWY_DYNAMIC_DISPATCH(MakeFactorsImpl)(head, tau, factors);
  float* out = factors + ChainFloats(head);
  for (const HeadEncoder::Small& small : head.smalls()) {
    const std::vector<double> exp =
        SmallExp(small, tau[small.source], mirrored);
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

void AdvanceKeysByColumn(const HeadEncoder& head, const float* tau,
                         bool mirrored, const float* src, int64_t src_width,
                         int64_t positions, int width, float* dst,
                         int64_t dst_width) {
  HWY_DYNAMIC_DISPATCH(AdvanceKeysByColumnImpl)
  (head, tau, src, src_width, positions, width, dst, dst_width);
  for (const HeadEncoder::Small& small : head.smalls()) {
    for (int j = 0; j < width; ++j) {
      const std::vector<double> exp =
          SmallExp(small, tau[small.source * width + j], mirrored);
      const std::vector<float> matrix(exp.begin(), exp.end());
      ApplyMatrix(matrix.data(), small.size, false,
                  dst + int64_t{small.first} * dst_width + j, dst_width);
    }
  }
}

void AddChainLogits(const HeadEncoder& head, absl::Span<const int> chains,
                    const float* q, const float* k, int64_t k_width,
                    const float* tau, float* logits) {
  HWY_DYNAMIC_DISPATCH(AddChainLogitsImpl)
  (head, chains.data(), static_cast<int>(chains.size()), q, k, k_width, tau,
   logits);
}

void AddDecayLogits(const HeadEncoder& head, absl::Span<const int> chains,
                    const Interleaving& times, const float* q, int rows,
                    int64_t stride, const float* k, int64_t k_width,
                    float* logits, int64_t logit_stride) {
  HWY_DYNAMIC_DISPATCH(AddDecayLogitsImpl)
  (head, chains.data(), static_cast<int>(chains.size()), times, q, rows, stride,
   k, k_width, logits, logit_stride);
}

void PairLogits(const HeadEncoder& head, const float* q, const float* k,
                int64_t k_width, int64_t positions, const float* tau,
                float* logits) {
  HWY_DYNAMIC_DISPATCH(PairLogitsImpl)
  (head, q, k, k_width, positions, tau, logits);
  // The vector loop took small blocks as identity; replace their share.
  for (const HeadEncoder::Small& small : head.smalls()) {
    for (int j = 0; j < kKeyGroup; ++j) {
      const float lag = tau[small.source * kKeyGroup + j];
      const std::vector<double> exp = SmallExp(small, std::fabs(lag), lag < 0);
      double change = 0;
      for (int r = 0; r < small.size; ++r) {
        for (int c = 0; c < small.size; ++c) {
          const double m = exp[r * small.size + c] - (r == c ? 1.0 : 0.0);
          change += q[small.first + r] * m * k[(small.first + c) * k_width + j];
        }
      }
      logits[j] += static_cast<float>(change);
    }
  }
}

}  // namespace attnd
#endif  // HWY_ONCE
