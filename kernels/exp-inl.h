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

// x = n ln2 + r, |r| <= ln2 / 2: returns r, 2^n in `power`. n from -126 to 127;
// beyond, anything.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ReduceByLn2(D d, V x, V* power) {
  const hn::RebindToUnsigned<D> du;
  // The sum has n + 127 in its lowest bits.
  const V kMagic = hn::Set(d, 1.5f * (1 << 23) + 127);
  const V sum = hn::MulAdd(x, hn::Set(d, 1.44269504089f), kMagic);
  const V n = hn::Sub(sum, kMagic);
  *power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, sum)));
  // In two parts, of which n times the first, 9 bits, is exact: there may be no
  // fused multiply-add, and DecayExp wants the second.
  const V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  return hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
}

// exp(x), |relative error| <= kExpRelativeError (softmax.h) for x in
// [-87.3, 5.5], exactly 0 below, NaN for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x);

#if HWY_TARGET == HWY_AVX2

// 2^(i/8), less i eighths of an exponent.
alignas(32) inline constexpr uint32_t kTwoToEighths[8] = {
    0x3F800000, 0x3F7B95C2, 0x3F7837F0, 0x3F75FED7,
    0x3F7504F3, 0x3F75672A, 0x3F7744FD, 0x3F7AC0C7};

// Degree 3 on [-ln2/16, ln2/16] after x = n ln2 / 8 + r. The sum with kMagic
// has n in its lowest bits: three of them choose from a register, the others
// move to the exponent.
template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  static_assert(hn::MaxLanes(D()) == 8);
  const hn::RebindToUnsigned<D> du;
  const V kMagic = hn::Set(d, 1.5f * (1 << 20));
  const auto flushed = hn::Lt(x, hn::Set(d, -87.3f));
  const V sum = hn::MulAdd(x, hn::Set(d, 1.44269504089f), kMagic);
  const V r =
      hn::NegMulAdd(hn::Sub(sum, kMagic), hn::Set(d, 0.693147180560f), x);
  const auto bits = hn::BitCast(du, sum);
  // Looks at the lowest three bits of each index.
  const decltype(bits) root{
      _mm256_permutevar8x32_epi32(hn::Load(du, kTwoToEighths).raw, bits.raw)};
  const V power = hn::BitCast(d, hn::Add(root, hn::ShiftLeft<20>(bits)));
  // Relative minimax fit with the first two coefficients held at 1: 2.6e-8.
  V p = hn::MulAdd(hn::Set(d, 0.16669738f), r, hn::Set(d, 0.50006559f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  // Not (p r) power + power: that product may be subnormal.
  return hn::IfThenZeroElse(flushed, hn::Mul(p, power));
}

#else

// e^r on [-ln2/2, ln2/2]: relative minimax fit of degree 5 with the first two
// coefficients held at 1, 1.1e-7.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpOfRest(D d, V r) {
  V p = hn::MulAdd(hn::Set(d, 0.00831252f), r, hn::Set(d, 0.04189011f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.16667114f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999232f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return hn::MulAdd(p, r, hn::Set(d, 1.0f));
}

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
#if HWY_TARGET <= HWY_AVX3
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504089f)));
  const V r = hn::NegMulAdd(n, hn::Set(d, 0.693147180560f), x);
  // NaN is not less and stays; of -inf, the rest of which is NaN, 0 is left.
  const __mmask16 kept =
      _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-87.3f), _CMP_NLT_UQ);
  return V{_mm512_maskz_scalef_ps(kept, ExpOfRest(d, r).raw, n.raw)};
#else
  V power;
  const V r = ReduceByLn2(d, x, &power);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)),
                            hn::Mul(ExpOfRest(d, r), power));
#endif
}

#endif  // HWY_TARGET == HWY_AVX2

// e^{-rate lag} within 1.3e-7 of it, rate lag from -11 to 87.3; 0 from there
// on. More exact than Exp, since up to three of them are factors of one term of
// a logit: also the rounding of the product is made up for.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V DecayExp(D d, V rate, V lag) {
  const V x = hn::Neg(hn::Mul(rate, lag));
  V power;
  V r = ReduceByLn2(d, x, &power);
  // What the product lost to rounding; not a number only where the rest is 0.
  r = hn::Sub(r, hn::MulAdd(rate, lag, x));
  // Relative minimax fit with the first two coefficients held at 1: 3e-9.
  V p = hn::MulAdd(hn::Set(d, 0.00138145401f), r, hn::Set(d, 0.00836874512f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416683908f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166665204f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.499999934f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::Mul(p, power));
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#endif  // include guard
