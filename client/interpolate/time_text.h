// Instants as text: ISO 8601 dates and times, or counts since 1970.
#ifndef ATTND_CLIENT_INTERPOLATE_TIME_TEXT_H_
#define ATTND_CLIENT_INTERPOLATE_TIME_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace attnd::client {

// How a file writes its times.
struct TimeFormat {
  // Nanoseconds of one count since 1970-01-01T00:00:00Z; 0 = ISO 8601.
  int64_t epoch_unit_ns = 0;
};

// Of what --time-unit says: a unit of duration_text.h, or empty for ISO 8601.
// InvalidArgument for another.
absl::StatusOr<TimeFormat> TimeFormatOf(absl::string_view time_unit);

// Nanoseconds since 1970-01-01T00:00:00Z.
//
// ISO 8601: YYYY-MM or YYYY-MM-DD (the first moment of it), or a date, 'T' or a
// space, HH:MM[:SS[.fraction]] and optionally a zone: Z, +HH, +HHMM or +HH:MM.
// Without a zone the time is UTC, whatever the machine's zone is. Counts:
// decimal numbers, exact ("1700000000.25").
//
// InvalidArgument for other text, for days and hours that do not exist, for
// parts of a nanosecond, and beyond 1677-09-21 .. 2262-04-11, which is what
// int64 nanoseconds hold.
absl::StatusOr<int64_t> ParseTime(absl::string_view text,
                                  const TimeFormat& format = {});

// Texts for many instants in one form, the shortest that loses nothing: dates
// if all are midnights, else date and time with as many decimals as the finest
// needs and Z; or counts.
std::vector<std::string> TimeTexts(absl::Span<const int64_t> times_ns,
                                   const TimeFormat& format = {});

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_TIME_TEXT_H_
