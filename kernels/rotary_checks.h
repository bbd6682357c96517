// What can be said against a rotary block before sizes are known.
#ifndef ATTND_KERNELS_ROTARY_CHECKS_H_
#define ATTND_KERNELS_ROTARY_CHECKS_H_

#include <string>

#include "absl/status/status.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// Base, channels, numbers of the scaling, sections. INVALID_ARGUMENT with the
// path of the first offending field below `path` (".../rotary").
absl::Status CheckRotary(const RotaryBlock& block, const std::string& path);

}  // namespace attnd

#endif  // ATTND_KERNELS_ROTARY_CHECKS_H_
