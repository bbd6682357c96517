// What estimates are held against: straight lines between neighbours, and the
// size of errors.
#ifndef ATTND_CLIENT_INTERPOLATE_STRAIGHT_LINE_H_
#define ATTND_CLIENT_INTERPOLATE_STRAIGHT_LINE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace attnd::client {

// For each wanted time the point on the straight line between the nearest known
// times before and after it. Before the first and after the last known time the
// nearest value; known times that repeat count once, with their mean.
//
//   known_ns, known   equal sizes, at least 1, sorted by time
//   wanted_ns         any order
std::vector<double> StraightLine(absl::Span<const int64_t> known_ns,
                                 absl::Span<const double> known,
                                 absl::Span<const int64_t> wanted_ns);

// sqrt(mean((a - b)^2)); 0 for empty spans of equal size.
double RootMeanSquare(absl::Span<const double> a, absl::Span<const double> b);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_STRAIGHT_LINE_H_
