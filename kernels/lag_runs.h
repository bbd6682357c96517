// Piecewise linear functions of the lag on a tile. Keys stand in time order, so
// that along a row the pieces are runs of columns: no pair is looked up.
#ifndef ATTND_KERNELS_LAG_RUNS_H_
#define ATTND_KERNELS_LAG_RUNS_H_

#include <cstdint>
#include <vector>

#include "kernels/lag_tile.h"

namespace attnd {

// Ascending borders; the segment of a lag is the number of borders <= lag. In
// ticks for exact times, in the axis' own unit for real ones. `ticks` may lack
// the last borders of `real`: lags of 2^63 ticks and more do not occur.
struct LagBorders {
  std::vector<int64_t> ticks;
  std::vector<double> real;

  int Segment(const LagPoint& point) const;
};

// Appends border `units` [any finite number or +inf] to both lists: the least
// tick at or after it, given ticks per unit as unit_ns / tick_ns.
void AppendBorder(long double units, int64_t unit_ns, int64_t tick_ns,
                  LagBorders* borders);

// Prefixes the mirror image of all borders (which must be > 0): the segment
// then says on which side of zero and how far |lag| is, a border belonging to
// the outer segment on both sides.
void MirrorBorders(LagBorders* borders);

// Fills part->runs and part->first_run for the prepared rectangle. Exact: the
// lags that are compared are subtracted in the representation of time.
void FindRuns(const LagTile& tile, const LagBorders& borders, LagPart* part);

// A line over a segment: value + slope * (lag - anchor), lags in ticks.
struct LagLine {
  double value = 0, slope = 0, anchor = 0;
};

// logits += values[segment].
void AddSteps(const LagTile& tile, const LagPart& part, const float* values,
              int64_t stride, float* logits);

// logits += lines[segment](lag), evaluated in double and rounded once.
void AddLines(const LagTile& tile, const LagPart& part, const LagLine* lines,
              int64_t stride, float* logits);

}  // namespace attnd

#endif  // ATTND_KERNELS_LAG_RUNS_H_
