// Lags of a row and elementary functions of them in double, included once per
// vector target.

#if defined(ATTND_KERNELS_LAG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_LAG_INL_H_
#undef ATTND_KERNELS_LAG_INL_H_
#else
#define ATTND_KERNELS_LAG_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Real = hn::CappedTag<double, 8>;
using RealVector = hn::Vec<Real>;

// query - key[0..lanes), subtracted in the representation of time: exact for
// int64_t, rounded once when it becomes a double.
template <typename T>
HWY_INLINE RealVector Lags(T query, const T* HWY_RESTRICT key) {
  const hn::Rebind<T, Real> dt;
  const auto lag = hn::Sub(hn::Set(dt, query), hn::LoadU(dt, key));
  if constexpr (std::is_same_v<T, double>) {
    return lag;
  } else {
    return hn::ConvertTo(Real(), lag);
  }
}

// row[c] = value(query - key[c], c) for c in [begin, end), or += when kAdd;
// value maps the lags of lanes from column c on to a RealVector, which is
// rounded to f32 once.
template <bool kAdd, typename T, typename F>
HWY_INLINE void MapLags(T query, const T* HWY_RESTRICT key, int64_t begin,
                        int64_t end, float* HWY_RESTRICT row, F value) {
  const hn::Rebind<float, Real> df32;
  const int64_t n = hn::Lanes(Real());
  int64_t c = begin;
  for (; c + n <= end; c += n) {
    auto bias = hn::DemoteTo(df32, value(Lags(query, key + c), c));
    if constexpr (kAdd) bias = hn::Add(hn::LoadU(df32, row + c), bias);
    hn::StoreU(bias, df32, row + c);
  }
  if (c >= end) return;
  HWY_ALIGN T keys[8];
  HWY_ALIGN float biases[8];
  for (int64_t i = 0; i < n; ++i) keys[i] = key[std::min(c + i, end - 1)];
  hn::StoreU(hn::DemoteTo(df32, value(Lags(query, keys), c)), df32, biases);
  for (int64_t i = 0; c + i < end; ++i) {
    row[c + i] = kAdd ? row[c + i] + biases[i] : biases[i];
  }
}

using Lane = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Lane>;

// Planes of all rectangles of an item are larger than a core's cache: asks for
// columns [begin, end) of a row some rows before they are read. Three are 3 KiB
// and take longer to add than one access to memory.
inline constexpr int64_t kPlaneRowsAhead = 3;
HWY_INLINE void PrefetchPlane(const float* row, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; c += 16) hwy::Prefetch(row + c);
}

// row[c, min(c + lanes, end)) += bias.
HWY_INLINE void AddLanes(Vector bias, int64_t c, int64_t end,
                         float* HWY_RESTRICT row) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  if (c + n <= end) {
    hn::StoreU(hn::Add(hn::LoadU(d, row + c), bias), d, row + c);
    return;
  }
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[16];
  hn::Store(bias, d, lanes);
  for (int64_t i = 0; c + i < end; ++i) row[c + i] += lanes[i];
#else
  const auto mask = hn::FirstN(d, static_cast<size_t>(end - c));
  hn::BlendedStore(hn::Add(hn::MaskedLoad(mask, d, row + c), bias), mask, d,
                   row + c);
#endif
}

// log2(x) for normal x > 0, relative error <= 5e-9. x = 2^e m, m in [sqrt(1/2),
// sqrt(2)); log2(m)/(m - 1) by a minimax polynomial.
HWY_INLINE RealVector Log2(RealVector x) {
  const Real d;
  const hn::RebindToUnsigned<Real> du;
  const auto bits = hn::BitCast(du, x);
  // Biased exponent after the cut at sqrt(1/2).
  const auto e = hn::ShiftRight<52>(
      hn::Add(bits, hn::Set(du, 0x3FF0000000000000u - 0x3FE6A09E667F3BCDu)));
  const auto m = hn::BitCast(
      d, hn::Sub(bits, hn::ShiftLeft<52>(hn::Sub(e, hn::Set(du, 1023u)))));
  // e + 2^52 as the bits of a double.
  const auto exponent =
      hn::Sub(hn::BitCast(d, hn::Or(e, hn::Set(du, 0x4330000000000000u))),
              hn::Set(d, 0x1p52 + 1023));
  const auto t = hn::Sub(m, hn::Set(d, 1.0));
  auto p = hn::Set(d, -0.10994960406723236);
  for (const double coefficient :
       {0.18617501685489328, -0.19106275595165899, 0.2046006094334675,
        -0.23961740264123911, 0.28856740906625272, -0.36069664944796447,
        0.48089824103939419, -0.72134735150040398, 1.4426950408300903}) {
    p = hn::MulAdd(p, t, hn::Set(d, coefficient));
  }
  return hn::MulAdd(p, t, exponent);
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#endif  // include guard
