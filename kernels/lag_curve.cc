#include "kernels/lag_curve.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lag_curve.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/lag-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

// row[c] (+)= max(curve.factor * shape(lag), -kLargestBias) on [begin, end).
template <bool kAdd, typename T>
HWY_INLINE void CurveRow(const LagCurve& curve, T query, const T* key,
                         int64_t begin, int64_t end, float* row) {
  const Real d;
  const auto factor = hn::Set(d, curve.factor), rate = hn::Set(d, curve.rate);
  const auto low = hn::Set(d, -kLargestBias), high = hn::Set(d, kLargestBias);
  if (!curve.power) {
    const auto one = hn::Set(d, 1.0);
    MapLags<kAdd>(query, key, begin, end, row, [&](RealVector lag) HWY_ATTR {
      return hn::Mul(factor, Log2(hn::MulAdd(rate, hn::Abs(lag), one)));
    });
    return;
  }
  const auto exponent = hn::Set(d, curve.exponent);
  MapLags<kAdd>(query, key, begin, end, row, [&](RealVector lag) HWY_ATTR {
    const auto size = hn::Abs(lag);
    const auto power = Exp2(hn::Mul(exponent, Log2(hn::Mul(rate, size))));
    const auto bias = hn::Min(hn::Max(hn::Mul(factor, power), low), high);
    return hn::IfThenZeroElse(hn::Eq(size, hn::Zero(d)), bias);
  });
}

template <bool kAdd>
HWY_INLINE void CurveTile(const LagCurve& curve, const LagTile& tile,
                          int64_t stride, float* rows) {
  const ItemGeometry& item = *tile.item;
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t i = tile.first + r, begin = tile.Begin(r), end = tile.End(r);
    if (item.exact) {
      CurveRow<kAdd>(curve, item.query_ticks[i],
                     item.key_ticks.data() + tile.key, begin, end,
                     rows + r * stride);
    } else {
      CurveRow<kAdd>(curve, item.query_real[i], item.key_real.data() + tile.key,
                     begin, end, rows + r * stride);
    }
  }
}

void SetCurveImpl(const LagCurve& curve, const LagTile& tile, int64_t stride,
                  float* rows) {
  CurveTile<false>(curve, tile, stride, rows);
}
void AddCurveImpl(const LagCurve& curve, const LagTile& tile, int64_t stride,
                  float* rows) {
  CurveTile<true>(curve, tile, stride, rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(SetCurveImpl);
HWY_EXPORT(AddCurveImpl);

void SetCurve(const LagCurve& curve, const LagTile& tile, int64_t stride,
              float* rows) {
  HWY_DYNAMIC_DISPATCH(SetCurveImpl)(curve, tile, stride, rows);
}

void AddCurve(const LagCurve& curve, const LagTile& tile, int64_t stride,
              float* rows) {
  HWY_DYNAMIC_DISPATCH(AddCurveImpl)(curve, tile, stride, rows);
}

}  // namespace attnd
#endif  // HWY_ONCE
