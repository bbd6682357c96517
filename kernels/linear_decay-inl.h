// Decaying and polynomial factors of the linear kind, included once per vector
// target.

#if defined(ATTND_KERNELS_LINEAR_DECAY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_LINEAR_DECAY_INL_H_
#undef ATTND_KERNELS_LINEAR_DECAY_INL_H_
#else
#define ATTND_KERNELS_LINEAR_DECAY_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/exp-inl.h"
#include "kernels/jets-inl.h"
#include "kernels/linear_decays.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DecayLane = hn::CappedTag<float, 16>;
using DecayVector = hn::Vec<DecayLane>;

// e^(-rate lag). The product's rounding is caught by a fused multiply and put
// back as a factor 1 - rest.
HWY_INLINE DecayVector Decay(DecayLane d, DecayVector rate_hi,
                             DecayVector rate_lo, DecayVector lag_hi,
                             DecayVector lag_lo) {
  const DecayVector p = hn::Mul(rate_hi, lag_hi);
  DecayVector rest = hn::MulSub(rate_hi, lag_hi, p);
  rest = hn::MulAdd(rate_hi, lag_lo, rest);
  rest = hn::MulAdd(rate_lo, lag_hi, rest);
  // Where the product overflows the rest is NaN and the factor 0.
  rest = hn::IfThenElseZero(hn::Lt(p, hn::Set(d, 200.0f)), rest);
  const DecayVector e = Exp(d, hn::Neg(p));
  return hn::NegMulAdd(e, rest, e);
}

// One chain over `columns`, a multiple of 16, with a lag each: A(lag) x, or its
// transpose. Jet r of x at src + r * src_step, of the answer at dst + r *
// dst_step.
template <bool kTransposed>
HWY_INLINE void AdvanceChain(const LinearDecays::Table& table, int chain,
                             const float* hi, const float* lo, int64_t columns,
                             const float* src, int64_t src_step, float* dst,
                             int64_t dst_step) {
  const DecayLane d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  const DecayVector rate_hi = hn::Set(d, table.rate_hi[chain]);
  const DecayVector rate_lo = hn::Set(d, table.rate_lo[chain]);
  const DecayVector coupling = hn::Set(d, table.coupling[chain]);
  const int order = table.order[chain];
  for (int64_t j = 0; j < columns; j += n) {
    const DecayVector lag = hn::LoadU(d, hi + j);
    const DecayVector e = Decay(d, rate_hi, rate_lo, lag, hn::LoadU(d, lo + j));
    if (order == 1) {
      hn::StoreU(hn::Mul(e, hn::LoadU(d, src + j)), d, dst + j);
      continue;
    }
    DecayVector x[kMaxJets], y[kMaxJets], power[kMaxJets];
    for (int r = 0; r < order; ++r) {
      x[r] = hn::LoadU(d, src + r * src_step + j);
    }
    Powers(d, e, hn::Mul(coupling, lag), order, power);
    Combine<kTransposed>(power, order, x, y);
    for (int r = 0; r < order; ++r) {
      hn::StoreU(y[r], d, dst + r * dst_step + j);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#endif  // include guard
