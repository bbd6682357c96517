// exp for non-positive arguments, included once per vector target.

#if defined(ATTND_KERNELS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_EXP_INL_H_
#undef ATTND_KERNELS_EXP_INL_H_
#else
#define ATTND_KERNELS_EXP_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// exp(x), |relative error| <= kExpRelativeError (softmax.h) for x in
// [-87.3, 5.5], exactly 0 below, NaN for NaN. Degree 5 on [-ln2/2, ln2/2] after
// x = n ln2 + r.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const V kLog2e = hn::Set(d, 1.44269504089f);
  const V kLn2 = hn::Set(d, 0.693147180560f);
#if HWY_TARGET <= HWY_AVX3
  // vmaxps keeps its second operand when either is NaN; -inf would give NaN in
  // the reduction. 2^-159 is below every subnormal, so scalef returns 0.
  x = hn::Max(hn::Set(d, -110.0f), x);
  const V n = hn::Round(hn::Mul(x, kLog2e));
#else
  const auto flushed = hn::Lt(x, hn::Set(d, -87.3f));
  x = hn::IfThenElse(flushed, hn::Zero(d), x);
  const hn::RebindToSigned<D> di;
  const auto ni = hn::NearestInt(hn::Mul(x, kLog2e));
  const V n = hn::ConvertTo(d, ni);
#endif
  const V r = hn::NegMulAdd(n, kLn2, x);
  // Relative minimax fit with the first two coefficients held at 1: 1.1e-7.
  V p = hn::MulAdd(hn::Set(d, 0.00831252f), r, hn::Set(d, 0.04189011f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.16667114f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999232f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
#if HWY_TARGET <= HWY_AVX3
  return V{_mm512_scalef_ps(p.raw, n.raw)};
#else
  const auto power =
      hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(ni, hn::Set(di, 127))));
  return hn::IfThenZeroElse(flushed, hn::Mul(p, power));
#endif
}

// e^{-rate lag} within 1.3e-7 of it, rate lag from -16 to 87.3; 0 from there
// on. More exact than Exp, since up to three of them are factors of one term of
// a logit: also the rounding of the product is made up for.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V DecayExp(D d, V rate, V lag) {
  const V kLog2e = hn::Set(d, 1.44269504089f);
  const V kLn2 = hn::Set(d, 0.693359375f);  // 9 bits: n kLn2 is exact
  const V kLn2Rest = hn::Set(d, -2.12194440e-4f);
  const V minus_rate = hn::Neg(rate);
  const V product = hn::Mul(minus_rate, lag);
  const auto flushed = hn::Lt(product, hn::Set(d, -87.3f));
  const V x = hn::IfThenElse(flushed, hn::Zero(d), product);
  const hn::RebindToSigned<D> di;
  const auto ni = hn::NearestInt(hn::Mul(x, kLog2e));
  const V n = hn::ConvertTo(d, ni);
  V r = hn::NegMulAdd(n, kLn2, x);
  r = hn::NegMulAdd(n, kLn2Rest, r);
  // What the product lost to rounding; infinite only where the rest is 0.
  r = hn::Add(r, hn::MulAdd(minus_rate, lag, hn::Neg(product)));
  V p = hn::MulAdd(hn::Set(d, 1.0f / 5040), r, hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto power =
      hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(ni, hn::Set(di, 127))));
  return hn::IfThenZeroElse(flushed, hn::Mul(p, power));
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#endif  // include guard
