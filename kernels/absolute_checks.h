// What can be said against absolute parts and query temperatures before sizes
// are known.
#ifndef ATTND_KERNELS_ABSOLUTE_CHECKS_H_
#define ATTND_KERNELS_ABSOLUTE_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// Finite numbers, ranges and counts. INVALID_ARGUMENT with the path of the
// first offending field below `path` ("absolutes[0].sinusoidal.base: ...").
absl::Status CheckAbsolutePart(const AbsolutePart& part,
                               const std::string& path);

absl::Status CheckTemperature(const QueryTemperature& temperature,
                              const std::string& path);

}  // namespace attnd

#endif  // ATTND_KERNELS_ABSOLUTE_CHECKS_H_
