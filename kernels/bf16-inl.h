// Rounding of floats to bf16 in vector loops.
#if defined(ATTND_KERNELS_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_BF16_INL_H_
#undef ATTND_KERNELS_BF16_INL_H_
#else
#define ATTND_KERNELS_BF16_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The upper halves of v rounded to the nearest, ties to even, in 32 bits each.
// A NaN may become any number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> Bf16BitsOfNumbers(D, V v) {
  const hn::Rebind<uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  return hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d32, 0x7fff)), odd));
}

// The same; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE hn::Vec<hn::Rebind<uint32_t, D>> Bf16Bits(D d, V v) {
  const hn::Rebind<uint32_t, D> d32;
  const auto quiet =
      hn::Or(hn::ShiftRight<16>(hn::BitCast(d32, v)), hn::Set(d32, 0x40));
  const auto nan = hn::RebindMask(d32, hn::Ne(v, v));
  return hn::IfThenElse(nan, quiet, Bf16BitsOfNumbers(d, v));
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#endif  // include guard
