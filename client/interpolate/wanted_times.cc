#include "client/interpolate/wanted_times.h"

#include "absl/numeric/int128.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/duration_text.h"

namespace attnd::client {

absl::StatusOr<std::vector<int64_t>> RegularGrid(int64_t first_ns,
                                                 int64_t last_ns,
                                                 int64_t step_ns) {
  if (step_ns <= 0) {
    return absl::InvalidArgumentError("grid step: expected more than 0");
  }
  const absl::int128 points = (absl::int128(last_ns) - first_ns) / step_ns + 1;
  if (points > kMaxGridPoints) {
    return absl::InvalidArgumentError(absl::StrCat(
        "grid step ", DurationText(step_ns), ": ", static_cast<double>(points),
        " points between the first and the last row, expected at most ",
        kMaxGridPoints, "; choose a longer step"));
  }
  std::vector<int64_t> grid(static_cast<size_t>(points));
  for (size_t i = 0; i < grid.size(); ++i) {
    grid[i] = static_cast<int64_t>(first_ns + absl::int128(i) * step_ns);
  }
  return grid;
}

absl::StatusOr<std::vector<int64_t>> ParseTimeList(absl::string_view text,
                                                   const TimeFormat& format) {
  std::vector<int64_t> times;
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    absl::StatusOr<int64_t> time = ParseTime(line, format);
    if (!time.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", time.status().message()));
    }
    times.push_back(*time);
  }
  return times;
}

}  // namespace attnd::client
