// The last few elements of an array as a vector, included once per vector
// target. Highway's masked loads and stores want alignment, and touch elements
// beyond the mask, on targets before AVX2 and on NEON.

#if defined(ATTND_KERNELS_TAIL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_TAIL_INL_H_
#undef ATTND_KERNELS_TAIL_INL_H_
#else
#define ATTND_KERNELS_TAIL_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define ATTND_EXACT_MASKS 1
#else
#define ATTND_EXACT_MASKS 0
#endif

// The first min(count, lanes) floats at p, zeros behind them. Reads no others.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadFirst(D d, const float* p, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count >= lanes) return hn::LoadU(d, p);
#if ATTND_EXACT_MASKS
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN float some[hn::MaxLanes(d)] = {};
  for (int64_t i = 0; i < count; ++i) some[i] = p[i];
  return hn::Load(d, some);
#endif
}

// Stores the first min(count, lanes) elements of v. Touches no others.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreFirst(V v, D d, float* p, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (count >= lanes) return hn::StoreU(v, d, p);
#if ATTND_EXACT_MASKS
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, p);
#else
  HWY_ALIGN float some[hn::MaxLanes(d)];
  hn::Store(v, d, some);
  for (int64_t i = 0; i < count; ++i) p[i] = some[i];
#endif
}

#undef ATTND_EXACT_MASKS

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#endif  // include guard
