// Whether numbers are finite, included once per vector target.

#if defined(ATTND_KERNELS_FINITE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_FINITE_INL_H_
#undef ATTND_KERNELS_FINITE_INL_H_
#else
#define ATTND_KERNELS_FINITE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

// Any `values`; 0 * x is NaN exactly for non-finite x.
HWY_INLINE bool AllFinite(const float* values, int64_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::CappedTag<float, 16> d;
  const int64_t n = hn::Lanes(d);
  auto a = hn::Zero(d), b = hn::Zero(d);
  int64_t c = 0;
  for (; c + 2 * n <= count; c += 2 * n) {
    a = hn::MulAdd(hn::LoadU(d, values + c), hn::Zero(d), a);
    b = hn::MulAdd(hn::LoadU(d, values + c + n), hn::Zero(d), b);
  }
  for (; c < count; c += n) {
    a = hn::MulAdd(LoadFirst(d, values + c, count - c), hn::Zero(d), a);
  }
  return hn::AllTrue(d, hn::Eq(hn::Add(a, b), hn::Zero(d)));
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#endif  // include guard
