#include "kernels/softcap.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softcap.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/exp-inl.h"
#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

// Coefficients of Cephes' tanhf (Moshier 1992); beyond 0.625 from exp(-2|x|).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V size = hn::Abs(x), square = hn::Mul(x, x);
  V p = hn::Set(d, -5.70498872745e-3f);
  p = hn::MulAdd(p, square, hn::Set(d, 2.06390887954e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, -5.37397155531e-2f));
  p = hn::MulAdd(p, square, hn::Set(d, 1.33314422036e-1f));
  p = hn::MulAdd(p, square, hn::Set(d, -3.33332819422e-1f));
  const V near = hn::MulAdd(hn::Mul(p, square), x, x);
  const V t = Exp(d, hn::Mul(size, hn::Set(d, -2.0f)));
  const V one = hn::Set(d, 1.0f);
  const V far = hn::CopySign(hn::Div(hn::Sub(one, t), hn::Add(one, t)), x);
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), near, far);
}

void SoftcapImpl(float cap, float* values, int64_t count) {
  const hn::CappedTag<float, 16> d;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, cap);
  for (int64_t c = 0; c < count; c += n) {
    const auto x = LoadFirst(d, values + c, count - c);
    StoreFirst(hn::Mul(Tanh(d, hn::Div(x, by)), by), d, values + c, count - c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(SoftcapImpl);

void Softcap(float cap, float* values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(SoftcapImpl)(cap, values, count);
}

}  // namespace attnd
#endif  // HWY_ONCE
