// Which keys a query sees, as an interval of the keys in time order.
//
// Causality, windows in time, lengths and validity never become a matrix: keys
// that are not valid are left out of the order, and what remains visible to a
// query is one interval [begin, end) of it, monotone over queries in time
// order.
#ifndef ATTND_KERNELS_VISIBILITY_H_
#define ATTND_KERNELS_VISIBILITY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/clock.h"

namespace attnd {

struct MaskSpec {
  // Key visible iff t_k <= t_q; strict: <.
  bool causal = false;
  bool strict = false;
  // Visible iff -future <= t_q - t_k <= past, closed. Ticks for kTicks and
  // kPositions, the axis' own unit for kReal (the other pair is ignored).
  std::optional<int64_t> past_ticks, future_ticks;
  std::optional<double> past_time, future_time;
  // Valid rows per item; empty = all. [B] Key validity does not move positions:
  // without times, key j stands at j and query i at key_length - query_length +
  // i.
  absl::Span<const int64_t> query_lengths, key_lengths;
  // One byte per key, 0 = invalid; empty = all valid. [B,Lk]
  absl::Span<const char> key_validity;
};

// One batch item in time order. Ticks are rebased to the item's earliest valid
// time: shifting all int64 times by a constant gives the same geometry.
struct ItemGeometry {
  int64_t query_rows = 0;  // valid queries
  int64_t key_rows = 0;    // valid keys
  // Original row of the i-th query / key in (time, index) order; empty = row i.
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
  // Keys [begin[i], end[i]) in key order are visible to the i-th query; both
  // never decrease. begin == end: none.
  std::vector<int32_t> begin, end;

  int64_t QueryRow(int64_t i) const {
    return query_order.empty() ? i : query_order[i];
  }
  int64_t KeyRow(int64_t j) const {
    return key_order.empty() ? j : key_order[j];
  }
  // t_query - t_key in ticks (or the real axis' unit), rounded once.
  double Lag(int64_t i, int64_t j) const {
    return exact ? static_cast<double>(query_ticks[i] - key_ticks[j])
                 : query_real[i] - key_real[j];
  }
};

// Geometry of item `batch` with query_rows x key_rows rows (before lengths).
// INVALID_ARGUMENT: NaN or infinite valid times; a span over 2^63-1 ticks; a
// length outside [0, rows].
absl::StatusOr<ItemGeometry> MakeGeometry(const TimeAxis& query_time,
                                          const TimeAxis& key_time,
                                          const MaskSpec& mask, int64_t batch,
                                          int64_t query_rows, int64_t key_rows);

}  // namespace attnd

#endif  // ATTND_KERNELS_VISIBILITY_H_
