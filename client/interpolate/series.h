// A series of values on irregular times, as it is read from a file.
#ifndef ATTND_CLIENT_INTERPOLATE_SERIES_H_
#define ATTND_CLIENT_INTERPOLATE_SERIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/interpolate/csv.h"
#include "client/interpolate/time_text.h"

namespace attnd::client {

// Sorted by time; times may repeat and keep the order of the file then.
struct Series {
  std::string time_name;
  std::string value_name;
  std::vector<int64_t> time_ns;
  // NaN = missing.
  std::vector<double> value;
};

struct SeriesOptions {
  // Name or number of the columns, see FindColumn().
  std::string time_column = "1";
  std::string value_column = "2";
  TimeFormat time_format = {};
  // Texts that mean a missing value beside the usual ones: nothing, NA, N/A,
  // NaN, null, none, "-" in any case.
  std::vector<std::string> missing = {};
};

// InvalidArgument with the line for a time that cannot be read, a value that is
// neither a finite number nor missing, or no value at all.
absl::StatusOr<Series> MakeSeries(const CsvTable& table,
                                  const SeriesOptions& options = {});

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_SERIES_H_
