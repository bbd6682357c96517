// What can be said against bias terms, before and after sizes are known.
#ifndef ATTND_KERNELS_BIAS_CHECKS_H_
#define ATTND_KERNELS_BIAS_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// Finite numbers and ranges. INVALID_ARGUMENT with the path of the first
// offending field below `path` ("biases[2].kerple.r1[0]: -1, expected finite
// and > 0").
absl::Status CheckBiasTerm(const BiasTerm& term, const std::string& path);

// That lists per head fit the number of heads and directions the head
// dimension. Expects a term that passed CheckBiasTerm.
absl::Status CheckBiasSizes(const BiasTerm& term, int query_heads, int head_dim,
                            const std::string& path);

}  // namespace attnd

#endif  // ATTND_KERNELS_BIAS_CHECKS_H_
