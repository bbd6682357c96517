#include "kernels/key_intervals.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace attnd {
namespace {

// Bounds on the lag in the axis' representation.
template <typename T>
struct LagBounds {
  std::optional<T> past, future;
  bool causal, strict;

  bool TooOld(T lag) const { return past && lag > *past; }
  bool TooNew(T lag) const {
    if (causal && (strict ? !(lag > 0) : lag < 0)) return true;
    return future && lag < -*future;
  }
};

// Lags fall with the key and rise with the query, so both borders only advance.
template <typename T>
void ByTime(const std::vector<T>& queries, const std::vector<T>& keys,
            const LagBounds<T>& bounds, ItemGeometry& item) {
  const auto n = static_cast<int32_t>(keys.size());
  int32_t begin = 0, end = 0;
  item.begin.reserve(queries.size());
  item.end.reserve(queries.size());
  for (T t : queries) {
    while (end < n && !bounds.TooNew(t - keys[end])) ++end;
    while (begin < n && bounds.TooOld(t - keys[begin])) ++begin;
    item.begin.push_back(std::min(begin, end));
    item.end.push_back(end);
  }
}

// Windows in keys, from the place behind the last key with t_k <= t_q.
template <typename T>
void ByCount(const std::vector<T>& queries, const std::vector<T>& keys,
             const MaskSpec& mask, ItemGeometry& item) {
  if (!mask.past_keys && !mask.future_keys) return;
  const auto n = static_cast<int64_t>(keys.size());
  const int64_t past = std::min(mask.past_keys.value_or(n), n);
  const int64_t future = std::min(mask.future_keys.value_or(n), n);
  int64_t place = 0;
  for (size_t i = 0; i < queries.size(); ++i) {
    while (place < n && keys[place] <= queries[i]) ++place;
    item.end[i] =
        static_cast<int32_t>(std::min<int64_t>(item.end[i], place + future));
    item.begin[i] = static_cast<int32_t>(std::min<int64_t>(
        std::max<int64_t>(item.begin[i], place - past), item.end[i]));
  }
}

// Where both orders follow the rows the limit is one more border, which only
// advances.
void ByIndex(const MaskSpec& mask, const ItemRows& rows, ItemGeometry& item) {
  const bool in_order =
      std::is_sorted(item.query_order.begin(), item.query_order.end()) &&
      std::is_sorted(item.key_order.begin(), item.key_order.end());
  const int64_t shift = rows.first_key - rows.first_query +
                        rows.first_position() + (mask.strict ? 0 : 1);
  int64_t border = 0;
  for (int64_t i = 0; i < item.query_rows; ++i) {
    const int64_t limit = item.QueryRow(i) + shift;
    if (!in_order) {
      item.row_limit.push_back(
          static_cast<int32_t>(std::max<int64_t>(limit, 0)));
      continue;
    }
    while (border < item.key_rows && item.KeyRow(border) < limit) ++border;
    item.end[i] = static_cast<int32_t>(std::min<int64_t>(item.end[i], border));
    item.begin[i] = std::min(item.begin[i], item.end[i]);
  }
}

void AddPrefix(const MaskSpec& mask, ItemGeometry& item) {
  item.prefix =
      static_cast<int32_t>(std::min<int64_t>(mask.prefix, item.key_rows));
  if (item.prefix == 0 || item.query_rows == 0) return;
  if (item.begin.back() > item.prefix) {
    item.gap_end = item.begin;
    for (int32_t& end : item.gap_end) end = std::max(end, item.prefix);
  }
  std::fill(item.begin.begin(), item.begin.end(), 0);
  for (int32_t& end : item.end) end = std::max(end, item.prefix);
}

}  // namespace

void FindIntervals(const MaskSpec& mask, const ItemRows& rows,
                   ItemGeometry& item) {
  if (item.exact) {
    ByTime<int64_t>(
        item.query_ticks, item.key_ticks,
        {mask.past_ticks, mask.future_ticks, mask.causal, mask.strict}, item);
    ByCount(item.query_ticks, item.key_ticks, mask, item);
  } else {
    ByTime<double>(item.query_real, item.key_real,
                   {mask.past_time, mask.future_time, mask.causal, mask.strict},
                   item);
    ByCount(item.query_real, item.key_real, mask, item);
  }
  if (mask.causal_index) ByIndex(mask, rows, item);
  AddPrefix(mask, item);
}

}  // namespace attnd
