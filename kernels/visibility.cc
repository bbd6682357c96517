#include "kernels/visibility.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attnd {
namespace {

constexpr uint64_t kMaxSpan = INT64_MAX;

absl::StatusOr<int64_t> ValidRows(absl::Span<const int64_t> lengths,
                                  absl::string_view field, int64_t batch,
                                  int64_t rows) {
  if (lengths.empty()) return rows;
  const int64_t length = lengths[batch];
  if (length < 0 || length > rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, "[", batch, "]: ", length, ", expected 0 to ", rows));
  }
  return length;
}

std::vector<int32_t> ValidKeys(const MaskSpec& mask, int64_t batch,
                               int64_t key_rows, int64_t length) {
  std::vector<int32_t> valid;
  valid.reserve(length);
  const char* validity = mask.key_validity.empty()
                             ? nullptr
                             : mask.key_validity.data() + batch * key_rows;
  for (int64_t j = 0; j < length; ++j) {
    if (validity == nullptr || validity[j] != 0) {
      valid.push_back(static_cast<int32_t>(j));
    }
  }
  return valid;
}

absl::Status CheckFinite(const TimeAxis& axis, absl::string_view field,
                         int64_t batch, absl::Span<const int32_t> rows) {
  if (axis.kind() != TimeAxis::Kind::kReal) return absl::OkStatus();
  int64_t bad = 0, first = 0;
  int where = 0;
  for (int32_t row : rows) {
    for (int c = 0; c < axis.coordinates(); ++c) {
      if (std::isfinite(axis.Real(batch, row, c))) continue;
      if (bad++ > 0) continue;
      first = row;
      where = c;
    }
  }
  if (bad == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": item ", batch, ", row ", first,
                   where > 0 ? absl::StrCat(", coordinate ", where) : "", ": ",
                   axis.Real(batch, first, where), ", expected finite (", bad,
                   " such in this item)"));
}

template <typename T>
T Time(const TimeAxis& axis, int64_t batch, int64_t row, int64_t position,
       int coordinate = 0) {
  if (axis.kind() == TimeAxis::Kind::kPositions)
    return static_cast<T>(position);
  if constexpr (std::is_same_v<T, int64_t>) {
    return axis.Ticks(batch, row, coordinate);
  } else {
    return axis.Real(batch, row, coordinate);
  }
}

// Puts rows in (time, index) order.
template <typename T>
void SortByTime(std::vector<int32_t>& rows, std::vector<T>& times) {
  if (std::is_sorted(times.begin(), times.end())) return;
  std::vector<int32_t> permutation(rows.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::stable_sort(permutation.begin(), permutation.end(),
                   [&](int32_t a, int32_t b) { return times[a] < times[b]; });
  std::vector<int32_t> sorted_rows(rows.size());
  std::vector<T> sorted_times(rows.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    sorted_rows[i] = rows[permutation[i]];
    sorted_times[i] = times[permutation[i]];
  }
  rows = std::move(sorted_rows);
  times = std::move(sorted_times);
}

// Subtracts the earliest time of both lists, after checking the span.
absl::Status Rebase(std::vector<int64_t>& queries, std::vector<int64_t>& keys,
                    int64_t batch) {
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (const auto* times : {&queries, &keys}) {
    for (auto t : *times) {
      low = std::min(low, t);
      high = std::max(high, t);
    }
  }
  if (low > high) return absl::OkStatus();
  const uint64_t span =
      static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  if (span > kMaxSpan) {
    return absl::InvalidArgumentError(absl::StrCat(
        "query_time, key_time: item ", batch, " spans ", span,
        " ticks, expected at most 2^63-1; use a coarser tick unit"));
  }
  // Modular: low may be INT64_MIN, the difference still fits.
  for (auto* times : {&queries, &keys}) {
    for (int64_t& t : *times) {
      t = static_cast<int64_t>(static_cast<uint64_t>(t) -
                               static_cast<uint64_t>(low));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> RealReference(const std::vector<double>& queries,
                                     const std::vector<double>& keys,
                                     int64_t batch) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const auto* times : {&queries, &keys}) {
    for (auto t : *times) {
      low = std::min(low, t);
      high = std::max(high, t);
    }
  }
  if (low > high) return 0.0;
  if (!(high - low < 0x1p63)) {
    return absl::InvalidArgumentError(
        absl::StrCat("query_time, key_time: item ", batch, " spans ",
                     high - low, ", expected less than 2^63"));
  }
  return low;
}

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
void FindIntervals(const std::vector<T>& queries, const std::vector<T>& keys,
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

bool IsIdentity(const std::vector<int32_t>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != static_cast<int32_t>(i)) return false;
  }
  return true;
}

// Coordinates 1, 2, ... in the order of coordinate 0.
template <typename T>
absl::Status AddCoordinates(const TimeAxis& query_time,
                            const TimeAxis& key_time, int64_t batch,
                            const std::vector<int32_t>& queries,
                            const std::vector<int32_t>& keys,
                            ItemGeometry& item) {
  for (int c = 1; c < query_time.coordinates(); ++c) {
    std::vector<T> query_times, key_times;
    for (int32_t i : queries) {
      query_times.push_back(Time<T>(query_time, batch, i, 0, c));
    }
    for (int32_t j : keys) {
      key_times.push_back(Time<T>(key_time, batch, j, 0, c));
    }
    ItemGeometry::Coordinate& further = item.further.emplace_back();
    if constexpr (std::is_same_v<T, int64_t>) {
      absl::Status status = Rebase(query_times, key_times, batch);
      if (!status.ok()) return status;
      further.query_ticks = std::move(query_times);
      further.key_ticks = std::move(key_times);
    } else {
      absl::StatusOr<double> reference =
          RealReference(query_times, key_times, batch);
      if (!reference.ok()) return reference.status();
      further.real_reference = *reference;
      further.query_real = std::move(query_times);
      further.key_real = std::move(key_times);
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<ItemGeometry> Build(const TimeAxis& query_time,
                                   const TimeAxis& key_time,
                                   const LagBounds<T>& bounds, int64_t batch,
                                   std::vector<int32_t> queries,
                                   std::vector<int32_t> keys,
                                   int64_t first_position) {
  std::vector<T> query_times, key_times;
  query_times.reserve(queries.size());
  key_times.reserve(keys.size());
  for (int32_t i : queries) {
    query_times.push_back(Time<T>(query_time, batch, i, first_position + i));
  }
  for (int32_t j : keys) key_times.push_back(Time<T>(key_time, batch, j, j));
  SortByTime(queries, query_times);
  SortByTime(keys, key_times);

  ItemGeometry item;
  item.query_rows = static_cast<int64_t>(queries.size());
  item.key_rows = static_cast<int64_t>(keys.size());
  if constexpr (std::is_same_v<T, int64_t>) {
    absl::Status status = Rebase(query_times, key_times, batch);
    if (!status.ok()) return status;
  } else {
    absl::StatusOr<double> reference =
        RealReference(query_times, key_times, batch);
    if (!reference.ok()) return reference.status();
    item.real_reference = *reference;
  }
  FindIntervals(query_times, key_times, bounds, item);
  absl::Status further =
      AddCoordinates<T>(query_time, key_time, batch, queries, keys, item);
  if (!further.ok()) return further;
  if (!IsIdentity(queries)) item.query_order = std::move(queries);
  if (!IsIdentity(keys)) item.key_order = std::move(keys);
  if constexpr (std::is_same_v<T, int64_t>) {
    item.query_ticks = std::move(query_times);
    item.key_ticks = std::move(key_times);
  } else {
    item.exact = false;
    item.query_real = std::move(query_times);
    item.key_real = std::move(key_times);
  }
  return item;
}

}  // namespace

absl::StatusOr<ItemGeometry> MakeGeometry(const TimeAxis& query_time,
                                          const TimeAxis& key_time,
                                          const MaskSpec& mask, int64_t batch,
                                          int64_t query_rows,
                                          int64_t key_rows) {
  absl::StatusOr<int64_t> query_length =
      ValidRows(mask.query_lengths, "mask.query_lengths", batch, query_rows);
  if (!query_length.ok()) return query_length.status();
  absl::StatusOr<int64_t> key_length =
      ValidRows(mask.key_lengths, "mask.key_lengths", batch, key_rows);
  if (!key_length.ok()) return key_length.status();
  std::vector<int32_t> queries(*query_length);
  std::iota(queries.begin(), queries.end(), 0);
  std::vector<int32_t> keys = ValidKeys(mask, batch, key_rows, *key_length);

  absl::Status status = CheckFinite(query_time, "query_time", batch, queries);
  if (!status.ok()) return status;
  status = CheckFinite(key_time, "key_time", batch, keys);
  if (!status.ok()) return status;

  const int64_t first_position = *key_length - *query_length;
  if (query_time.kind() == TimeAxis::Kind::kReal) {
    const LagBounds<double> bounds{mask.past_time, mask.future_time,
                                   mask.causal, mask.strict};
    return Build<double>(query_time, key_time, bounds, batch,
                         std::move(queries), std::move(keys), first_position);
  }
  const LagBounds<int64_t> bounds{mask.past_ticks, mask.future_ticks,
                                  mask.causal, mask.strict};
  return Build<int64_t>(query_time, key_time, bounds, batch, std::move(queries),
                        std::move(keys), first_position);
}

}  // namespace attnd
