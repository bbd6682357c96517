// Lengths of time as people type them: "250ms", "7d", "1.5h".
#ifndef ATTND_CLIENT_DURATION_TEXT_H_
#define ATTND_CLIENT_DURATION_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

// A decimal number and one of ns us ms s min h d w (a day is 86400 s), the
// units of `time_unit` in the server's configuration; exact nanoseconds, any
// sign. InvalidArgument for another unit, none, or a length that is not a whole
// number of nanoseconds within int64 (292 years).
absl::StatusOr<int64_t> ParseDuration(absl::string_view text);

// Nanoseconds of one unit of that list; nullopt for another name.
std::optional<int64_t> UnitNanoseconds(absl::string_view unit);

// The shortest such text for a length, with three significant digits: "1.53ms".
std::string DurationText(double nanoseconds);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_DURATION_TEXT_H_
