// A polynomial through a cloud of points by least squares.
#ifndef ATTND_CLIENT_INTERPOLATE_TREND_H_
#define ATTND_CLIENT_INTERPOLATE_TREND_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace attnd::client {

// Fitted in the basis of polynomials that are orthogonal over the points
// themselves (Forsythe 1957), on time centred and scaled to [-1, 1]: there is
// no matrix to be ill-conditioned, and raising the degree changes no lower
// coefficient. Immutable and thread-safe.
class Trend {
 public:
  // Degree that a fit may have, at most.
  static constexpr int kMaxDegree = 12;

  // The polynomial of `degree` closest to values[i] at times_ns[i], in any
  // order. Degree -1 is the zero function, whatever the points.
  // InvalidArgument for a degree out of -1 .. kMaxDegree, and when there are
  // fewer than degree + 1 distinct times.
  static absl::StatusOr<Trend> Fit(absl::Span<const int64_t> times_ns,
                                   absl::Span<const double> values, int degree);

  // The value at any time. Far outside the fitted times a polynomial of degree
  // 2 or more says little.
  double At(int64_t time_ns) const;

 private:
  // p_0 = 1, p_{k+1}(x) = (x - shift_k) p_k(x) - factor_k p_{k-1}(x).
  struct Term {
    double coefficient;
    double shift;
    double factor;
  };

  double Scaled(int64_t time_ns) const;

  std::vector<Term> terms_;
  int64_t first_ns_ = 0;
  double half_span_ns_ = 1;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_TREND_H_
