// Scratch and contract of biases that times alone determine: prepared once for
// a tile of rows x keys of an item, then added to the logits of every head.
#ifndef ATTND_KERNELS_LAG_TILE_H_
#define ATTND_KERNELS_LAG_TILE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/tensor.h"
#include "kernels/visibility.h"

namespace attnd {

// One pair of times. Lags in ticks of the request (kReal: the axis' own unit).
struct LagPoint {
  bool exact = true;   // `ticks` holds the lag, else `real`
  int64_t ticks = 0;   // t_query - t_key
  double real = 0;     // the same, rounded once
  double elapsed = 0;  // t_query - earliest valid key time
};

// Columns [previous run's end, end) of a row lie in one segment.
struct LagRun {
  int32_t end = 0;
  int32_t segment = 0;
};

// What one term knows about the tile. Meaning is the term's own.
struct LagPart {
  AlignedBuffer plane;             // [rows, PlaneStride(keys)]
  std::vector<LagRun> runs;        // of all rows, one after the other
  std::vector<int32_t> first_run;  // [rows + 1], into runs
  std::vector<int32_t> crossing;   // per border: its column in the last row
  std::vector<double> row_factor;  // [rows of StartRows]
  AlignedBuffer row_table, key_table;
};

// Floats from one row of a plane to the next.
inline constexpr int64_t PlaneStride(int64_t keys) {
  return (keys + 31) / 32 * 32;
}

struct LagTile {
  const ItemGeometry* item = nullptr;
  int64_t start = 0;  // first query of StartRows, in the item's time order
  int64_t all_rows = 0;
  // The prepared rectangle: queries [first, first + rows), keys [key, key +
  // keys) of the item's order.
  int64_t first = 0, rows = 0, key = 0, keys = 0;
  std::vector<LagPart> parts;

  // Visible columns of row r of the rectangle.
  int64_t Begin(int64_t r) const {
    return std::clamp<int64_t>(item->begin[first + r] - key, 0, keys);
  }
  int64_t End(int64_t r) const {
    return std::clamp<int64_t>(item->end[first + r] - key, 0, keys);
  }
  // Column of the first key later than row r; may lie outside the rectangle.
  int64_t FirstFuture(int64_t r) const {
    const auto count = [](const auto& times, auto query) {
      return std::upper_bound(times.begin(), times.end(), query) -
             times.begin();
    };
    const int64_t i = first + r;
    return (item->exact ? count(item->key_ticks, item->query_ticks[i])
                        : count(item->key_real, item->query_real[i])) -
           key;
  }
};

// One term of the sum, compiled for all query heads. Immutable.
class LagTerm {
 public:
  virtual ~LagTerm() = default;
  // In double, as the formula reads.
  virtual double Exact(int head, const LagPoint& point) const = 0;
  // What the term counts in S of the accuracy contract: |bias|, or the sum of
  // its inner terms' sizes.
  virtual double Size(int head, const LagPoint& point) const {
    return std::fabs(Exact(head, point));
  }
  // A bound from above on [low, high], lags in ticks.
  virtual double Supremum(int head, double low, double high) const = 0;
  // For all rows of a query tile, then for a rectangle of it.
  virtual void StartRows(const LagTile&, LagPart*) const {}
  virtual void Prepare(const LagTile& tile, LagPart* part) const = 0;
  // logits[r * stride + c] += bias at the visible columns of the rectangle.
  virtual void Add(int head, const LagTile& tile, const LagPart& part,
                   int64_t stride, float* logits) const = 0;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LAG_TILE_H_
