// Times of a request's rows, irregular in the ways in which recorded series
// are.
#ifndef ATTND_CLIENT_LOAD_ROW_TIMES_H_
#define ATTND_CLIENT_LOAD_ROW_TIMES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/random.h"

namespace attnd::client {

enum class TimeKind {
  // No time axes: positions.
  kNone,
  // Equal gaps.
  kGrid,
  // A grid whose every time is moved by up to 0.4 of a gap, at random.
  kJitter,
  // Exponential gaps: arrivals of a Poisson process.
  kPoisson,
  // Groups of 16 rows on average, a fiftieth of the mean gap apart, with long
  // gaps in between.
  kBursts,
  // Exponential gaps, one in four of them 0: equal times.
  kDuplicates,
  // A grid from which stretches are missing: one gap in 64 is 2 to 129 steps
  // long.
  kMissing,
  // Exponential gaps, one in 50 of them longer by 1 to 5 days.
  kDays,
};

// "none", "grid", "jitter", "poisson", "bursts", "duplicates", "missing",
// "days"; nullopt for other names.
std::optional<TimeKind> TimeKindOf(absl::string_view name);

// 2026-01-01T00:00:00Z: where the series end, so that times are as large as
// they really are.
inline constexpr int64_t kSeriesEndNs = 1'767'225'600'000'000'000;

// `rows` times in nanoseconds, not decreasing, the last at kSeriesEndNs.
//
//   gap_ns   mean gap between neighbours; of kMissing and kDays without the
//            stretches that they leave out
std::vector<int64_t> RowTimes(TimeKind kind, int64_t gap_ns, int64_t rows,
                              Random& random);

// Upper bound on the length of such a series that only absurd luck passes;
// what exceeds int64 must be refused before.
double LongestSpanNs(TimeKind kind, int64_t gap_ns, int64_t rows);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_ROW_TIMES_H_
