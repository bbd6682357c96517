// Scratch and contract of biases that times alone determine: prepared once for
// a rectangle of rows x keys of an item, then added to the logits of any head.
#ifndef ATTND_KERNELS_LAG_TILE_H_
#define ATTND_KERNELS_LAG_TILE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
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

  double Lag() const { return exact ? static_cast<double>(ticks) : real; }
};

// The pair (i, j) of the item's order.
LagPoint PointOf(const ItemGeometry& item, int64_t i, int64_t j);

// Queries [first, first + rows) and keys [key, key + keys) of an item's order.
// Keys past the item's last may be asked for and are never visible.
struct LagRectangle {
  const ItemGeometry* item = nullptr;
  int64_t first = 0, rows = 0, key = 0, keys = 0;

  // Visible columns of row r.
  int64_t Begin(int64_t r) const {
    return std::clamp<int64_t>(item->begin[first + r] - key, 0, keys);
  }
  int64_t End(int64_t r) const {
    return std::clamp<int64_t>(item->end[first + r] - key, 0, keys);
  }
  // Column of the first key later than row r; may lie outside.
  int64_t FirstFuture(int64_t r) const;
  // Whether all lags but 0 of visible pairs, in ticks, lie within [least, most]
  // in size.
  bool LagsWithin(double least, double most) const;
  // Keys that exist.
  int64_t ValidKeys() const { return std::min(keys, item->key_rows - key); }
};

// Columns [previous run's end, end) of a row lie in one segment.
struct LagRun {
  int32_t end = 0;
  int32_t segment = 0;
};

// What one term keeps of a rectangle; the meaning is the term's own.
struct LagPart {
  AlignedBuffer plane;             // [rows, PlaneStride(keys)] and slack
  std::vector<LagRun> runs;        // of all rows, one after the other
  std::vector<int32_t> first_run;  // [rows + 1], into runs
  std::vector<double> row_factor;  // [rows]
  bool extreme = false;            // lags that the fast way is not made for
};

// A function of some times, tabulated; the stamp says of what and whose.
struct LagTable {
  std::vector<int64_t> stamp;
  AlignedBuffer values;
};

// Working memory of Prepare.
struct LagScratch {
  std::vector<int32_t> crossing;
  std::vector<uint64_t> phases;
  LagTable rows;
  // Of recent blocks of keys; the next to be replaced.
  std::vector<LagTable> keys;
  size_t oldest_keys = 0;
};

// Floats from one row of a plane to the next, and what may be read past the
// last.
inline constexpr int64_t PlaneStride(int64_t keys) {
  return (keys + 31) / 32 * 32;
}
inline constexpr int64_t kPlaneSlack = 16;

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
  // Once per rectangle, for all heads.
  virtual void Prepare(const LagRectangle&, LagScratch*, LagPart*) const {}
  // logits[r * stride + c] += bias at the visible columns.
  virtual void Add(int head, const LagRectangle& rectangle, const LagPart& part,
                   int64_t stride, float* logits) const = 0;
};

// Prepared rectangles of one worker, the recent ones kept: heads of an item see
// the same times, so that what one head prepared serves the others, whichever
// order units come in. Entries are found by the times themselves, never by
// addresses.
class LagCache {
 public:
  // Parts of `rectangle` for these terms, prepared unless kept. They stay valid
  // until the next call. `owner` identifies the terms.
  const std::vector<LagPart>& Find(
      const std::shared_ptr<const void>& owner,
      const std::vector<std::unique_ptr<LagTerm>>& terms,
      const LagRectangle& rectangle);

  // Serves nothing that was prepared before; keeps the memory.
  void Forget();
  int64_t bytes() const;
  // For tests.
  int64_t prepared() const { return prepared_; }

 private:
  struct Entry {
    uint64_t hash = 0;  // of the stamp
    std::vector<int64_t> stamp;
    std::vector<LagPart> parts;
    int64_t bytes = 0;
  };
  Entry& Next();

  std::shared_ptr<const void> owner_;
  std::vector<Entry> entries_;
  std::vector<int64_t> stamp_;
  LagScratch scratch_;
  size_t hit_ = 0;     // where to look first
  size_t oldest_ = 0;  // next to be replaced, once full
  int64_t entry_bytes_ = 0;
  int64_t prepared_ = 0;
};

// Kept rectangles take at most about this much. 16 MiB: all of a causal item of
// 2048 keys, 128 x 256 floats each.
inline constexpr int64_t kLagCacheBytes = int64_t{16} << 20;
inline constexpr size_t kLagCacheEntries = 192;

// What a worker holds for one query tile after the other: where it is, and the
// cache. See LagBias (lag_bias.h).
struct LagTile {
  const ItemGeometry* item = nullptr;
  int64_t start = 0;  // first query of the tile, in the item's time order
  int64_t rows = 0;
  LagRectangle rectangle;
  const std::vector<LagPart>* parts = nullptr;
  LagCache cache;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LAG_TILE_H_
