// Logarithms and powers of |lag| on a rectangle of pairs.
#ifndef ATTND_KERNELS_LAG_CURVE_H_
#define ATTND_KERNELS_LAG_CURVE_H_

#include <cstdint>

#include "kernels/lag_tile.h"

namespace attnd {

// part->plane = rate |lag| at the visible columns, rounded once; lags in ticks.
void SetLagPlane(double rate, const LagRectangle& tile, LagPart* part);

// logits += factor * ln(1 + rate x) with x from such a plane. Relative error <=
// 2e-7 for rate in [1e-30, 1e37], rate x <= 1e37 and |factor| <= 1e30; where
// rate x < 1e-37, nothing.
void AddLog(double factor, double rate, const LagRectangle& tile,
            const LagPart& part, int64_t stride, float* logits);

// part->plane = ln(1 + rate |lag|) at the visible columns, rounded once; 1 +
// rate |lag| counts up to the largest double.
void SetLogPlane(double rate, const LagRectangle& tile, LagPart* part);

// part->plane = log2(rate |lag|), as integers in units of 2^-25; cut at +-2^6.
void SetBinaryLogPlane(double rate, const LagRectangle& tile, LagPart* part);

// logits -= size * 2^(exponent log2), log2 from such a plane, nothing at lag 0.
// Relative error <= 2e-7; size > 0, 0 < exponent <= 2. What is larger than
// about kLargestBias comes out as that, so that no visible key becomes a hidden
// one.
inline constexpr double kLargestBias = 8e37;
void SubtractPower(double size, double exponent, const LagRectangle& tile,
                   const LagPart& part, int64_t stride, float* logits);

}  // namespace attnd

#endif  // ATTND_KERNELS_LAG_CURVE_H_
