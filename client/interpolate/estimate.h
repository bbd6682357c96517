// Estimates of a series at wanted times: trend plus averages of what the trend
// leaves over.
#ifndef ATTND_CLIENT_INTERPOLATE_ESTIMATE_H_
#define ATTND_CLIENT_INTERPOLATE_ESTIMATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/client.h"
#include "client/interpolate/trend.h"

namespace attnd::client {

// One average by one encoding.
struct Pass {
  // Name of a configured encoding.
  std::string encoding;
  // One weight per plane, see ConstantVector(); empty = DefaultWeights().
  std::vector<double> plane_weights;
};

struct EstimateOptions {
  // In order. Each averages what trend and passes before it leave over of the
  // visible values (Tukey's twicing): a first wide one finds the seasons, a
  // second narrow one the level of the neighbourhood.
  std::vector<Pass> passes;
  // Only values at or before the wanted time weigh in. The trend is still that
  // of all visible values.
  bool causal = false;
  // The client's own message limit.
  int64_t message_bytes = kDefaultMessageBytes;
};

// Values at `wanted_ns` from the visible values alone. NaN where a wanted time
// sees none of them.
//
//   times_ns, values   the visible ones, sorted by time, equal sizes, at least
//   1
//
// Errors are those of Trend::Fit() and ConstantVector(), and the service's.
absl::StatusOr<std::vector<double>> Estimate(
    const Client& client, const EstimateOptions& options, const Trend& trend,
    absl::Span<const int64_t> times_ns, absl::Span<const double> values,
    absl::Span<const int64_t> wanted_ns);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_ESTIMATE_H_
