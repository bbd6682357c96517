#include "kernels/pair_logits.h"

#include <cmath>
#include <vector>

#include "kernels/chains.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pair_logits.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/exp-inl.h"
#include "kernels/jets-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

using Lane = hn::CappedTag<float, kKeyGroup>;
using Vector = hn::Vec<Lane>;

// A sum of products in runs, as scores need them (small_product.h).
struct RunSum {
  explicit RunSum(Lane d) : run(hn::Zero(d)), total(hn::Zero(d)) {}
  HWY_INLINE void Add(Lane d, Vector a, Vector b) {
    run = hn::MulAdd(a, b, run);
    if (++terms % 16 != 0) return;
    total = hn::Add(total, run);
    run = hn::Zero(d);
  }
  HWY_INLINE Vector Total() const { return hn::Add(total, run); }
  Vector run, total;
  int terms = 0;
};

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
    RunSum sum(d);
    int64_t done = 0;  // positions below belong to a chain group already seen
    const auto plain = [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        sum.Add(d, hn::Set(d, q[p]), hn::LoadU(d, k + p * k_width + j));
      }
    };
    for (const HeadEncoder::ChainGroup& group : head.chain_groups()) {
      plain(done, group.first);
      done = group.first + int64_t{group.order} * group.count;
      for (int i = 0; i < group.count; ++i) {
        const int chain = group.factor_offset + i;
        const Vector lag = hn::Abs(
            hn::LoadU(d, tau + head.chain_sources()[chain] * kKeyGroup + j));
        const Vector e = DecayExp(d, hn::Set(d, head.rates()[chain]), lag);
        const int64_t p = group.first + i;
        if (group.order == 1) {
          const Vector term =
              hn::Mul(hn::Set(d, q[p]), hn::LoadU(d, k + p * k_width + j));
          sum.Add(d, e, term);
          continue;
        }
        const Vector z = hn::Mul(lag, hn::Set(d, head.couplings()[chain]));
        sum.Add(d, hn::Set(d, 1.0f),
                AddChain(d, group, e, z, q + p, k + p * k_width + j, k_width,
                         hn::Zero(d)));
      }
    }
    plain(done, positions);
    hn::StoreU(sum.Total(), d, logits + j);
  }
}

// e^{-rate lag}, lag >= 0, where no logit is an answer itself: what the product
// loses to rounding is below 2^-24 of what does not decay.
HWY_INLINE Vector ShrinkingExp(Lane d, Vector rate, Vector lag) {
  return Exp(d, hn::Neg(hn::Mul(rate, lag)));
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
      const Vector e = ShrinkingExp(d, hn::Set(d, head.rates()[chain]), lag);
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
    const Vector rate = hn::Set(d, head.rates()[chain]);
    for (int64_t j = 0; j < kKeyGroup; j += n) {
      hn::Store(ShrinkingExp(d, rate, hn::Load(d, times.gap + j)), d, step + j);
    }
    for (int64_t j = 0; j < kKeyGroup; j += n) {
      const Vector entering =
          hn::Mul(ShrinkingExp(d, rate, hn::Load(d, times.entry_lag + j)),
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

HWY_EXPORT(PairLogitsImpl);
HWY_EXPORT(AddChainLogitsImpl);
HWY_EXPORT(AddDecayLogitsImpl);

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
                int64_t k_width, int64_t positions, const SourceLags& lags,
                float* logits) {
  HWY_DYNAMIC_DISPATCH(PairLogitsImpl)
  (head, q, k, k_width, positions, lags.rounded(), logits);
  // The vector loop took small blocks as identity; replace their share.
  for (const HeadEncoder::Small& small : head.smalls()) {
    for (int j = 0; j < kKeyGroup; ++j) {
      const double lag = lags.exact(small.source * kKeyGroup + j);
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
