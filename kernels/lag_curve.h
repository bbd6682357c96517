// Logarithms and powers of |lag| on a tile.
#ifndef ATTND_KERNELS_LAG_CURVE_H_
#define ATTND_KERNELS_LAG_CURVE_H_

#include <cstdint>

#include "kernels/lag_tile.h"

namespace attnd {

// factor * log2(1 + rate |lag|), or factor * (rate |lag|)^exponent with 0 at 0;
// lags in ticks.
struct LagCurve {
  bool power = false;
  double factor = 0;
  double rate = 0;
  double exponent = 0;
};

// Beyond +-kLargestBias curves are cut, so that no visible key becomes a hidden
// one.
inline constexpr double kLargestBias = 1e38;

// rows[r * stride + c] = curve at the visible columns of the rectangle, within
// 5e-9 of |curve| before it is rounded to f32 once.
void SetCurve(const LagCurve& curve, const LagTile& tile, int64_t stride,
              float* rows);

// The same, +=.
void AddCurve(const LagCurve& curve, const LagTile& tile, int64_t stride,
              float* rows);

}  // namespace attnd

#endif  // ATTND_KERNELS_LAG_CURVE_H_
