// A prepared function of the lag, added to the logits of one head.
#ifndef ATTND_KERNELS_LAG_PLANE_H_
#define ATTND_KERNELS_LAG_PLANE_H_

#include <cstdint>
#include <vector>

#include "kernels/lag_tile.h"

namespace attnd {

// logits += factor * part.plane at the visible columns.
void AddPlane(const LagRectangle& tile, const LagPart& part, double factor,
              int64_t stride, float* logits);

// Cuts each row where row_factor * plane passes a knot: segment = number of
// knots <= that. The plane must rise with |lag|.
void FindPlaneRuns(const LagRectangle& tile, const std::vector<double>& knots,
                   LagPart* part);

// logits += values[s] + slopes[s] * part.row_factor[r] * part.plane, s the
// segment of the column in part.runs.
void AddPlaneLines(const LagRectangle& tile, const LagPart& part,
                   const double* values, const double* slopes, int64_t stride,
                   float* logits);

}  // namespace attnd

#endif  // ATTND_KERNELS_LAG_PLANE_H_
