#include "client/interpolate/series.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace attnd::client {
namespace {

bool IsMissing(absl::string_view text, const SeriesOptions& options) {
  for (const char* usual : {"", "NA", "N/A", "NaN", "null", "none", "-"}) {
    if (absl::EqualsIgnoreCase(text, usual)) return true;
  }
  return std::find(options.missing.begin(), options.missing.end(), text) !=
         options.missing.end();
}

absl::StatusOr<double> ParseValue(absl::string_view field,
                                  const SeriesOptions& options) {
  const absl::string_view text = absl::StripAsciiWhitespace(field);
  if (IsMissing(text, options)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double value;
  if (absl::SimpleAtod(text, &value) && std::isfinite(value)) return value;
  return absl::InvalidArgumentError(
      absl::StrCat("value '", field,
                   "', expected a finite number, or nothing or NA where "
                   "it is missing (name other texts with --missing)"));
}

absl::StatusOr<int64_t> ParseRowTime(const std::string& field,
                                     const SeriesOptions& options) {
  absl::StatusOr<int64_t> time = ParseTime(field, options.time_format);
  double number;
  if (!time.ok() && options.time_format.epoch_unit_ns == 0 &&
      absl::SimpleAtod(field, &number)) {
    return absl::InvalidArgumentError(
        absl::StrCat("time '", field,
                     "' is a number: say what one count since 1970 is "
                     "with --time-unit s, ms, us or ns"));
  }
  return time;
}

absl::Status AtLine(int64_t line, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ": ", status.message()));
}

void SortByTime(Series* series) {
  std::vector<size_t> order(series->time_ns.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return series->time_ns[a] < series->time_ns[b];
  });
  Series sorted;
  for (size_t i : order) {
    sorted.time_ns.push_back(series->time_ns[i]);
    sorted.value.push_back(series->value[i]);
  }
  series->time_ns = std::move(sorted.time_ns);
  series->value = std::move(sorted.value);
}

}  // namespace

absl::StatusOr<Series> MakeSeries(const CsvTable& table,
                                  const SeriesOptions& options) {
  absl::StatusOr<int> time_column = FindColumn(table, options.time_column);
  if (!time_column.ok()) return time_column.status();
  absl::StatusOr<int> value_column = FindColumn(table, options.value_column);
  if (!value_column.ok()) return value_column.status();

  Series series;
  const bool named = !table.header.empty();
  series.time_name = named ? table.header[*time_column] : "time";
  series.value_name = named ? table.header[*value_column] : "value";
  bool any_value = false;
  for (const CsvRow& row : table.rows) {
    absl::StatusOr<int64_t> time =
        ParseRowTime(row.fields[*time_column], options);
    if (!time.ok()) return AtLine(row.line, time.status());
    absl::StatusOr<double> value =
        ParseValue(row.fields[*value_column], options);
    if (!value.ok()) return AtLine(row.line, value.status());
    any_value = any_value || !std::isnan(*value);
    series.time_ns.push_back(*time);
    series.value.push_back(*value);
  }
  if (!any_value) {
    return absl::InvalidArgumentError(
        absl::StrCat("column '", series.value_name, "': ", table.rows.size(),
                     " rows, expected at least one with a value"));
  }
  SortByTime(&series);
  return series;
}

}  // namespace attnd::client
