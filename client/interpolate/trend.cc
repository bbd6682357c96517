#include "client/interpolate/trend.h"

#include <algorithm>
#include <set>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"

namespace attnd::client {
namespace {

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

// Subtracts integers first: epoch nanoseconds as doubles are 256 ns apart.
double Trend::Scaled(int64_t time_ns) const {
  const absl::int128 since = absl::int128(time_ns) - first_ns_;
  return static_cast<double>(since) / half_span_ns_ - 1;
}

absl::StatusOr<Trend> Trend::Fit(absl::Span<const int64_t> times_ns,
                                 absl::Span<const double> values, int degree) {
  if (degree < -1 || degree > kMaxDegree) {
    return absl::InvalidArgumentError(absl::StrCat(
        "trend degree ", degree, ", expected -1 (none) to ", kMaxDegree));
  }
  Trend trend;
  if (degree < 0) return trend;
  const size_t distinct =
      std::set<int64_t>(times_ns.begin(), times_ns.end()).size();
  if (distinct < static_cast<size_t>(degree) + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("trend of degree ", degree, ": ", distinct,
                     " distinct times with values, expected at least ",
                     degree + 1, "; choose a lower degree"));
  }
  const auto [first, last] =
      std::minmax_element(times_ns.begin(), times_ns.end());
  trend.first_ns_ = *first;
  const double span =
      static_cast<double>(absl::int128(*last) - absl::int128(*first));
  trend.half_span_ns_ = span > 0 ? span / 2 : 1;

  const size_t n = times_ns.size();
  std::vector<double> x(n), residual(values.begin(), values.end());
  for (size_t i = 0; i < n; ++i) x[i] = trend.Scaled(times_ns[i]);
  std::vector<double> before(n, 0.0), current(n, 1.0), weighted(n);
  double norm_before = 1;
  for (int k = 0; k <= degree; ++k) {
    const double norm = Dot(current, current);
    for (size_t i = 0; i < n; ++i) weighted[i] = x[i] * current[i];
    const Term term = {.coefficient = Dot(residual, current) / norm,
                       .shift = Dot(weighted, current) / norm,
                       .factor = k == 0 ? 0 : norm / norm_before};
    trend.terms_.push_back(term);
    for (size_t i = 0; i < n; ++i) {
      residual[i] -= term.coefficient * current[i];
      const double next =
          (x[i] - term.shift) * current[i] - term.factor * before[i];
      before[i] = current[i];
      current[i] = next;
    }
    norm_before = norm;
  }
  return trend;
}

double Trend::At(int64_t time_ns) const {
  const double x = Scaled(time_ns);
  double sum = 0;
  double before = 0;
  double current = 1;
  for (const Term& term : terms_) {
    sum += term.coefficient * current;
    const double next = (x - term.shift) * current - term.factor * before;
    before = current;
    current = next;
  }
  return sum;
}

}  // namespace attnd::client
