// Which keys a query sees, as intervals of the keys in time order.
//
// Causality, windows, lengths, validity and ranges never become a matrix: keys
// that are not valid are left out of the order, and what remains visible to a
// query is one interval [begin, end) of it, monotone over queries in time
// order, less one gap (prefix) and, when rows of unsorted times are causal by
// index, less the keys of later rows.
#ifndef ATTND_KERNELS_VISIBILITY_H_
#define ATTND_KERNELS_VISIBILITY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/clock.h"

namespace attnd {

// Closed interval of time: ticks for kTicks and kPositions, reals for kReal
// (the other pair is ignored).
struct TimeRange {
  int64_t begin_ticks = 0, end_ticks = 0;
  double begin_time = 0, end_time = 0;
};

struct MaskSpec {
  // Key visible iff t_k <= t_q; strict: <.
  bool causal = false;
  bool strict = false;
  // Key row j visible to query row i iff j <= i + nk - nq (strict: <), whatever
  // the times; nk and nq as lengths or offsets give them.
  bool causal_index = false;
  // Visible iff -future <= t_q - t_k <= past, closed. Ticks for kTicks and
  // kPositions, the axis' own unit for kReal (the other pair is ignored).
  std::optional<int64_t> past_ticks, future_ticks;
  std::optional<double> past_time, future_time;
  // At most so many keys at or before the query's time, and after it, counted
  // in (time, index) order from the query.
  std::optional<int64_t> past_keys, future_keys;
  // The first `prefix` keys in (time, index) order are visible whatever
  // causality and windows say.
  int64_t prefix = 0;
  // Valid rows per item; empty = all. [B] Key validity does not move positions:
  // without times, key j stands at j and query i at key_length - query_length +
  // i.
  absl::Span<const int64_t> query_lengths, key_lengths;
  // Items packed one after the other (tensors of B = 1): item n has query rows
  // [query_offsets[n], query_offsets[n + 1]) and the key rows alike, and counts
  // positions and indices from its own first row. Both or none; no lengths.
  absl::Span<const int64_t> query_offsets, key_offsets;
  // One byte per key, 0 = invalid; empty = all valid. [B,Lk]
  absl::Span<const char> key_validity;
  // Keys outside all of these are as if invalid; empty = none are.
  std::vector<TimeRange> key_ranges;

  bool ragged() const { return !query_offsets.empty(); }
};

// Rows of the tensors that belong to an item.
struct ItemRows {
  int64_t batch = 0;                         // of the tensors
  int64_t first_query = 0, queries = 0;      // padding included
  int64_t first_key = 0, keys = 0;           // padding included
  int64_t query_length = 0, key_length = 0;  // without padding

  // Position of the item's first query row where rows stand at positions.
  int64_t first_position() const { return key_length - query_length; }
};
ItemRows RowsOf(const MaskSpec& mask, int64_t item, int64_t query_rows,
                int64_t key_rows);

// One batch item in time order. Ticks are rebased to the item's earliest valid
// time: shifting all int64 times by a constant gives the same geometry.
struct ItemGeometry {
  int64_t query_rows = 0;  // valid queries
  int64_t key_rows = 0;    // valid keys
  // Row in the tensors of the i-th query / key in (time, index) order; empty =
  // row i.
  std::vector<int32_t> query_order, key_order;
  // Times in that order: rebased ticks (>= 0) for kTicks and kPositions; for
  // kReal the times as sent, since rebasing them would round.
  bool exact = true;  // ticks, not real
  std::vector<int64_t> query_ticks, key_ticks;
  std::vector<double> query_real, key_real;
  double real_reference = 0;  // earliest valid real time
  // Coordinates 1, 2, ... of the same rows, each rebased on its own.
  struct Coordinate {
    std::vector<int64_t> query_ticks, key_ticks;
    std::vector<double> query_real, key_real;
    double real_reference = 0;
  };
  std::vector<Coordinate> further;
  // Only keys [begin[i], end[i]) in key order are visible to the i-th query;
  // both never decrease. begin == end: none.
  std::vector<int32_t> begin, end;
  // Keys [0, prefix) are visible to every query: begin is then 0.
  int32_t prefix = 0;
  // Of the others, keys [prefix, gap_end[i]) are hidden; gap_end never
  // decreases. Empty: no gap.
  std::vector<int32_t> gap_end;
  // Of the others, keys whose row is row_limit[i] or more are hidden. Empty:
  // none.
  std::vector<int32_t> row_limit;

  int64_t QueryRow(int64_t i) const {
    return query_order.empty() ? i : query_order[i];
  }
  int64_t KeyRow(int64_t j) const {
    return key_order.empty() ? j : key_order[j];
  }
  // Whether keys lie in their order, row after row. O(key_rows).
  bool keys_adjacent() const {
    for (size_t j = 1; j < key_order.size(); ++j) {
      if (key_order[j] != key_order[j - 1] + 1) return false;
    }
    return true;
  }
  // Whether the i-th query sees the j-th key.
  bool Sees(int64_t i, int64_t j) const {
    if (j < prefix) return true;
    return j >= begin[i] && j < end[i] &&
           (gap_end.empty() || j >= gap_end[i]) &&
           (row_limit.empty() || KeyRow(j) < row_limit[i]);
  }
  int64_t VisibleKeys(int64_t i) const;
  // t_query - t_key in ticks (or the real axis' unit), rounded once.
  double Lag(int64_t i, int64_t j) const {
    return exact ? static_cast<double>(query_ticks[i] - key_ticks[j])
                 : query_real[i] - key_real[j];
  }
};

// Keys of an item that lengths, offsets, validity and ranges leave: the length
// that encodings count. Masks that hide keys from some queries alone
// (causality, windows) do not shorten it. Rows as the factory below takes them.
int64_t ValidKeyCount(const TimeAxis& key_time, const MaskSpec& mask,
                      int64_t item, int64_t key_rows);

// Geometry of an item of tensors with query_rows x key_rows rows (before
// lengths). INVALID_ARGUMENT: NaN or infinite valid times; a span over 2^63-1
// ticks; a length outside [0, rows]; offsets that do not rise from 0 to the row
// count.
absl::StatusOr<ItemGeometry> MakeGeometry(const TimeAxis& query_time,
                                          const TimeAxis& key_time,
                                          const MaskSpec& mask, int64_t item,
                                          int64_t query_rows, int64_t key_rows);

}  // namespace attnd

#endif  // ATTND_KERNELS_VISIBILITY_H_
