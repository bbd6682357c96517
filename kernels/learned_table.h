// A learned table of absolute positions: row x + row_offset at x = (t - origin)
// / step.
#ifndef ATTND_KERNELS_LEARNED_TABLE_H_
#define ATTND_KERNELS_LEARNED_TABLE_H_

#include <cstdint>
#include <memory>

#include "kernels/absolute_time.h"
#include "kernels/clock.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// Expects a part that passed CheckAbsolutePart (absolute_checks.h).
//   exact    x must be an integer
//   nearest  floor(x + 0.5)
//   linear   between floor(x) and the row after
//   cubic    Catmull-Rom over four rows; the outer two are clamped to the table
// Boundary error: defined where all rows that count lie in the table; clamp:
// x + row_offset is clamped to [0, rows - 1]; wrap: rows are taken modulo their
// number. floor is exact when a row lasts a whole number of ticks, else in 64
// bits of precision.
std::unique_ptr<AbsoluteVector> MakeLearnedTable(const LearnedTablePart& part,
                                                 const TickRatio& ratio,
                                                 int64_t origin_ticks);

}  // namespace attnd

#endif  // ATTND_KERNELS_LEARNED_TABLE_H_
