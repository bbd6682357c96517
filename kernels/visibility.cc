#include "kernels/visibility.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/key_intervals.h"

namespace attnd {
namespace {

constexpr uint64_t kMaxSpan = INT64_MAX;

absl::Status CheckLength(absl::Span<const int64_t> lengths,
                         absl::string_view field, int64_t item, int64_t rows) {
  if (lengths.empty()) return absl::OkStatus();
  const int64_t length = lengths[item];
  if (length >= 0 && length <= rows) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, "[", item, "]: ", length, ", expected 0 to ", rows));
}

absl::Status CheckOffsets(absl::Span<const int64_t> offsets,
                          absl::string_view field, int64_t item, int64_t rows) {
  if (offsets.empty()) return absl::OkStatus();
  const int64_t begin = offsets[item], end = offsets[item + 1];
  if (begin >= 0 && begin <= end && end <= rows) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, "[", item + 1, "]: ", end, " after ", begin,
                   ", expected not to fall, 0 to ", rows));
}

std::vector<int32_t> ValidKeys(const MaskSpec& mask, const ItemRows& rows,
                               int64_t key_rows) {
  std::vector<int32_t> valid;
  valid.reserve(rows.key_length);
  const char* validity = mask.key_validity.empty()
                             ? nullptr
                             : mask.key_validity.data() + rows.batch * key_rows;
  for (int64_t j = rows.first_key; j < rows.first_key + rows.key_length; ++j) {
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

bool InRange(const TimeRange& range, int64_t t) {
  return range.begin_ticks <= t && t <= range.end_ticks;
}
bool InRange(const TimeRange& range, double t) {
  return range.begin_time <= t && t <= range.end_time;
}

template <typename T>
bool InSomeRange(const std::vector<TimeRange>& ranges, T t) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [t](const TimeRange& r) { return InRange(r, t); });
}

// Leaves the keys that lie in some range.
template <typename T>
void KeepRanges(const std::vector<TimeRange>& ranges,
                std::vector<int32_t>& rows, std::vector<T>& times) {
  if (ranges.empty()) return;
  size_t kept = 0;
  for (size_t j = 0; j < rows.size(); ++j) {
    if (!InSomeRange(ranges, times[j])) continue;
    rows[kept] = rows[j];
    times[kept++] = times[j];
  }
  rows.resize(kept);
  times.resize(kept);
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
                                   const MaskSpec& mask, const ItemRows& rows,
                                   int64_t number, std::vector<int32_t> queries,
                                   std::vector<int32_t> keys) {
  std::vector<T> query_times, key_times;
  query_times.reserve(queries.size());
  key_times.reserve(keys.size());
  for (int32_t i : queries) {
    query_times.push_back(
        Time<T>(query_time, rows.batch, i,
                rows.first_position() + i - rows.first_query));
  }
  for (int32_t j : keys) {
    key_times.push_back(Time<T>(key_time, rows.batch, j, j - rows.first_key));
  }
  KeepRanges(mask.key_ranges, keys, key_times);
  SortByTime(queries, query_times);
  SortByTime(keys, key_times);

  ItemGeometry item;
  item.query_rows = static_cast<int64_t>(queries.size());
  item.key_rows = static_cast<int64_t>(keys.size());
  if constexpr (std::is_same_v<T, int64_t>) {
    absl::Status status = Rebase(query_times, key_times, number);
    if (!status.ok()) return status;
    item.query_ticks = std::move(query_times);
    item.key_ticks = std::move(key_times);
  } else {
    absl::StatusOr<double> reference =
        RealReference(query_times, key_times, number);
    if (!reference.ok()) return reference.status();
    item.exact = false;
    item.real_reference = *reference;
    item.query_real = std::move(query_times);
    item.key_real = std::move(key_times);
  }
  absl::Status further =
      AddCoordinates<T>(query_time, key_time, rows.batch, queries, keys, item);
  if (!further.ok()) return further;
  if (!IsIdentity(queries)) item.query_order = std::move(queries);
  if (!IsIdentity(keys)) item.key_order = std::move(keys);
  FindIntervals(mask, rows, item);
  return item;
}

}  // namespace

ItemRows RowsOf(const MaskSpec& mask, int64_t item, int64_t query_rows,
                int64_t key_rows) {
  if (mask.ragged()) {
    const int64_t queries =
        mask.query_offsets[item + 1] - mask.query_offsets[item];
    const int64_t keys = mask.key_offsets[item + 1] - mask.key_offsets[item];
    return {.first_query = mask.query_offsets[item],
            .queries = queries,
            .first_key = mask.key_offsets[item],
            .keys = keys,
            .query_length = queries,
            .key_length = keys};
  }
  const auto length = [item](absl::Span<const int64_t> lengths, int64_t rows) {
    return lengths.empty() ? rows : lengths[item];
  };
  return {.batch = item,
          .queries = query_rows,
          .keys = key_rows,
          .query_length = length(mask.query_lengths, query_rows),
          .key_length = length(mask.key_lengths, key_rows)};
}

int64_t ValidKeyCount(const TimeAxis& key_time, const MaskSpec& mask,
                      int64_t item, int64_t key_rows) {
  const ItemRows rows = RowsOf(mask, item, 0, key_rows);
  if (mask.key_validity.empty() && mask.key_ranges.empty()) {
    return rows.key_length;
  }
  const std::vector<int32_t> keys = ValidKeys(mask, rows, key_rows);
  if (mask.key_ranges.empty()) return static_cast<int64_t>(keys.size());
  return std::count_if(keys.begin(), keys.end(), [&](int32_t j) {
    const int64_t position = j - rows.first_key;
    return key_time.kind() == TimeAxis::Kind::kReal
               ? InSomeRange(mask.key_ranges,
                             Time<double>(key_time, rows.batch, j, position))
               : InSomeRange(mask.key_ranges,
                             Time<int64_t>(key_time, rows.batch, j, position));
  });
}

int64_t ItemGeometry::VisibleKeys(int64_t i) const {
  if (row_limit.empty()) {
    const int64_t gap = gap_end.empty() ? 0 : std::max(0, gap_end[i] - prefix);
    return end[i] - begin[i] - gap;
  }
  int64_t count = 0;
  for (int64_t j = begin[i]; j < end[i]; ++j) count += Sees(i, j) ? 1 : 0;
  return count;
}

absl::StatusOr<ItemGeometry> MakeGeometry(const TimeAxis& query_time,
                                          const TimeAxis& key_time,
                                          const MaskSpec& mask, int64_t item,
                                          int64_t query_rows,
                                          int64_t key_rows) {
  for (const absl::Status& status :
       {CheckLength(mask.query_lengths, "mask.query_lengths", item, query_rows),
        CheckLength(mask.key_lengths, "mask.key_lengths", item, key_rows),
        CheckOffsets(mask.query_offsets, "mask.query_offsets", item,
                     query_rows),
        CheckOffsets(mask.key_offsets, "mask.key_offsets", item, key_rows)}) {
    if (!status.ok()) return status;
  }
  const ItemRows rows = RowsOf(mask, item, query_rows, key_rows);
  std::vector<int32_t> queries(rows.query_length);
  std::iota(queries.begin(), queries.end(),
            static_cast<int32_t>(rows.first_query));
  std::vector<int32_t> keys = ValidKeys(mask, rows, key_rows);

  absl::Status status =
      CheckFinite(query_time, "query_time", rows.batch, queries);
  if (!status.ok()) return status;
  status = CheckFinite(key_time, "key_time", rows.batch, keys);
  if (!status.ok()) return status;
  const auto build = query_time.kind() == TimeAxis::Kind::kReal
                         ? Build<double>
                         : Build<int64_t>;
  return build(query_time, key_time, mask, rows, item, std::move(queries),
               std::move(keys));
}

}  // namespace attnd
