// At which times estimates are asked for.
#ifndef ATTND_CLIENT_INTERPOLATE_WANTED_TIMES_H_
#define ATTND_CLIENT_INTERPOLATE_WANTED_TIMES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/interpolate/time_text.h"

namespace attnd::client {

// Grid points that one run may ask for.
inline constexpr int64_t kMaxGridPoints = 10'000'000;

// first, first + step, ... up to and including `last`; first <= last.
// InvalidArgument for a step that is not positive or gives more than
// kMaxGridPoints.
absl::StatusOr<std::vector<int64_t>> RegularGrid(int64_t first_ns,
                                                 int64_t last_ns,
                                                 int64_t step_ns);

// One time a line; empty lines and lines that begin with '#' are passed over.
// InvalidArgument with the line for a time that cannot be read.
absl::StatusOr<std::vector<int64_t>> ParseTimeList(
    absl::string_view text, const TimeFormat& format = {});

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_WANTED_TIMES_H_
