// Exponentials of Jordan chains in vector loops: the powers of one lag, applied
// to the jets of a chain.
#if defined(ATTND_KERNELS_JETS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_JETS_INL_H_
#undef ATTND_KERNELS_JETS_INL_H_
#else
#define ATTND_KERNELS_JETS_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>

#include "kernels/direct_sum.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// power[i] = e z^i / i! below `order`; 0 where e is 0 even if z^i overflowed.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void Powers(D d, V e, V z, int order, V* power) {
  power[0] = e;
  const auto alive = hn::Gt(e, hn::Zero(d));
  for (int i = 1; i < order; ++i) {
    power[i] = hn::IfThenElseZero(
        alive, hn::Mul(power[i - 1],
                       hn::Mul(z, hn::Set(d, 1.0f / static_cast<float>(i)))));
  }
}

// y_r = sum_i power_i x_{r-i} (transposed) or x_{r+i}.
template <bool kTransposed, class V>
HWY_INLINE void Combine(const V* power, int order, const V* x, V* y) {
  for (int r = 0; r < order; ++r) {
    V sum = hn::Mul(power[0], x[r]);
    const int terms = kTransposed ? r : order - 1 - r;
    for (int i = 1; i <= terms; ++i) {
      sum = hn::MulAdd(power[i], x[kTransposed ? r - i : r + i], sum);
    }
    y[r] = sum;
  }
}

// Both, of an order known at compile time.
template <bool kTransposed, int kOrder, class D, class V = hn::Vec<D>>
HWY_INLINE void Polynomial(D d, V e, V z, const V* x, V* y) {
  V power[kOrder];
  Powers(d, e, z, kOrder, power);
  Combine<kTransposed>(power, kOrder, x, y);
}

// Calls f with the order of a chain as a constant.
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
      return f(std::integral_constant<int, kMaxJets>());
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#endif  // include guard
