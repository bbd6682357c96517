// Between a carried state as sent and the frame of the loops: encoded order and
// basis, rotated by exact phases from the item's own origin.
#ifndef ATTND_KERNELS_LINEAR_FRAME_H_
#define ATTND_KERNELS_LINEAR_FRAME_H_

#include <cstdint>
#include <vector>

#include "kernels/encoder.h"
#include "kernels/phase_rows.h"

namespace attnd {

// frame [dim, width] = R B^T sums, what encoded keys at `points` (one per entry
// of head.frequencies()) would have summed to. All in double. head null: a
// copy. Not in place.
void EnterFrame(const HeadEncoder* head, const PhasePoint* points, int64_t dim,
                int64_t width, const double* sums, double* frame);

// The inverse.
void LeaveFrame(const HeadEncoder* head, const PhasePoint* points, int64_t dim,
                int64_t width, const double* frame, double* sums);

// Turns the rows of every plane by its phase, or back.
void RotateFrame(const HeadEncoder& head, const PhasePoint* points, bool back,
                 int64_t width, double* frame);

// frame = A(lag) frame for the decaying and polynomial parts, lags in units,
// one per source. Rotations are in the phases.
void AdvanceFrame(const HeadEncoder* head, const double* lags, bool mirrored,
                  int64_t width, double* frame);

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_FRAME_H_
