#include "client/load/row_times.h"

#include <cmath>
#include <utility>

namespace attnd::client {
namespace {

constexpr double kDayNs = 86400e9;
// Of kBursts: short gaps in mean gaps, and rows of a burst.
constexpr double kShort = 1.0 / 50;
constexpr double kBurstRows = 16;
// Longest missing stretch, in steps.
constexpr double kMissingSteps = 128;

// One gap in nanoseconds.
double Gap(TimeKind kind, double mean, Random& random) {
  switch (kind) {
    case TimeKind::kPoisson:
      return mean * random.Exponential();
    case TimeKind::kBursts: {
      // Means add up to 1: (15 short gaps + 1 long) / 16.
      const bool last = random.Uniform() < 1 / kBurstRows;
      const double length =
          last ? kBurstRows - (kBurstRows - 1) * kShort : kShort;
      return mean * length * random.Exponential();
    }
    case TimeKind::kDuplicates:
      return random.Uniform() < 0.25 ? 0 : mean / 0.75 * random.Exponential();
    case TimeKind::kMissing:
      return mean * (random.Uniform() < 1.0 / 64
                         ? 2 + std::floor(kMissingSteps * random.Uniform())
                         : 1);
    case TimeKind::kDays: {
      const bool days = random.Uniform() < 1.0 / 50;
      const double extra = days ? kDayNs * (1 + 4 * random.Uniform()) : 0;
      return extra + mean * random.Exponential();
    }
    default:
      return mean;
  }
}

}  // namespace

std::optional<TimeKind> TimeKindOf(absl::string_view name) {
  const std::pair<const char*, TimeKind> kinds[] = {
      {"none", TimeKind::kNone},       {"grid", TimeKind::kGrid},
      {"jitter", TimeKind::kJitter},   {"poisson", TimeKind::kPoisson},
      {"bursts", TimeKind::kBursts},   {"duplicates", TimeKind::kDuplicates},
      {"missing", TimeKind::kMissing}, {"days", TimeKind::kDays}};
  for (const auto& [known, kind] : kinds) {
    if (name == known) return kind;
  }
  return {};
}

std::vector<int64_t> RowTimes(TimeKind kind, int64_t gap_ns, int64_t rows,
                              Random& random) {
  std::vector<int64_t> times(rows);
  const double mean = static_cast<double>(gap_ns);
  int64_t at = kSeriesEndNs;
  for (int64_t i = rows; i-- > 0;) {
    times[i] = at;
    at -= std::llround(Gap(kind, mean, random));
  }
  if (kind == TimeKind::kJitter) {
    for (int64_t i = 0; i + 1 < rows; ++i) {
      times[i] += std::llround(0.8 * (random.Uniform() - 0.5) * mean);
    }
  }
  return times;
}

double LongestSpanNs(TimeKind kind, int64_t gap_ns, int64_t rows) {
  const double n = static_cast<double>(rows);
  const double mean = static_cast<double>(gap_ns);
  // Sums of exponentials stay within twice their mean, plus 64 for few rows.
  double span = 2 * (n + 64 * kBurstRows) * mean;
  if (kind == TimeKind::kMissing) {
    span += (n / 32 + 64) * (kMissingSteps + 2) * mean;
  }
  if (kind == TimeKind::kDays) span += (n / 25 + 64) * 5 * kDayNs;
  return span;
}

}  // namespace attnd::client
