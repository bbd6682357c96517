// Piecewise linear functions of the lag on a tile. Keys stand in time order, so
// that along a row the pieces are runs of columns: no pair is looked up.
#ifndef ATTND_KERNELS_LAG_RUNS_H_
#define ATTND_KERNELS_LAG_RUNS_H_

#include <cstdint>
#include <vector>

#include "kernels/lag_tile.h"

namespace attnd {

// Most keys of a prepared rectangle.
inline constexpr int64_t kMaxRowKeys = 1024;

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
void FindRuns(const LagRectangle& tile, const LagBorders& borders,
              LagScratch* scratch, LagPart* part);

// Where a segment starts and how long it is, in ticks; an unbounded one has
// inverse_width 0.
struct LagKnot {
  double anchor = 0, inverse_width = 0;
};

// part->plane = (lag - anchor) * inverse_width of each visible column's
// segment, subtracted exactly and rounded to f32 once: from 0 to 1.
void FindShares(const LagRectangle& tile, const LagKnot* knots, LagPart* part);

// Value where a segment starts, and how much it rises to its end.
struct LagLine {
  float value = 0, rise = 0;
};

// logits += values[segment].
void AddSteps(const LagRectangle& tile, const LagPart& part,
              const float* values, int64_t stride, float* logits);

// logits += value + rise * part.plane of the column's segment.
void AddLines(const LagRectangle& tile, const LagPart& part,
              const LagLine* lines, int64_t stride, float* logits);

}  // namespace attnd

#endif  // ATTND_KERNELS_LAG_RUNS_H_
