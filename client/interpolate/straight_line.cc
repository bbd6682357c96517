#include "client/interpolate/straight_line.h"

#include <algorithm>
#include <cmath>

#include "absl/numeric/int128.h"

namespace attnd::client {
namespace {

struct Knot {
  int64_t time_ns;
  double value;
};

std::vector<Knot> MeanPerTime(absl::Span<const int64_t> times_ns,
                              absl::Span<const double> values) {
  std::vector<Knot> knots;
  for (size_t begin = 0; begin < times_ns.size();) {
    size_t end = begin;
    double sum = 0;
    while (end < times_ns.size() && times_ns[end] == times_ns[begin]) {
      sum += values[end++];
    }
    knots.push_back({times_ns[begin], sum / static_cast<double>(end - begin)});
    begin = end;
  }
  return knots;
}

double Between(const Knot& a, const Knot& b, int64_t time_ns) {
  const absl::int128 start = a.time_ns;
  const double share = static_cast<double>(absl::int128(time_ns) - start) /
                       static_cast<double>(absl::int128(b.time_ns) - start);
  return a.value + share * (b.value - a.value);
}

}  // namespace

std::vector<double> StraightLine(absl::Span<const int64_t> known_ns,
                                 absl::Span<const double> known,
                                 absl::Span<const int64_t> wanted_ns) {
  const std::vector<Knot> knots = MeanPerTime(known_ns, known);
  std::vector<double> result;
  result.reserve(wanted_ns.size());
  for (int64_t time_ns : wanted_ns) {
    const auto after = std::lower_bound(
        knots.begin(), knots.end(), time_ns,
        [](const Knot& knot, int64_t time) { return knot.time_ns < time; });
    if (after == knots.end()) {
      result.push_back(knots.back().value);
    } else if (after == knots.begin() || after->time_ns == time_ns) {
      result.push_back(after->value);
    } else {
      result.push_back(Between(*std::prev(after), *after, time_ns));
    }
  }
  return result;
}

double RootMeanSquare(absl::Span<const double> a, absl::Span<const double> b) {
  if (a.empty()) return 0;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

}  // namespace attnd::client
