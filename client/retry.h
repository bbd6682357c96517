// Whether to call again, and when.
#ifndef ATTND_CLIENT_RETRY_H_
#define ATTND_CLIENT_RETRY_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attnd::client {

// Share of the server's delay that is added at most, so that clients that were
// refused together do not come back together.
inline constexpr double kRetryJitter = 0.2;

// How long to wait before the next attempt after `failed`, or nullopt when
// there must be none: the server sent no RetryInfo, `attempts` calls have been
// made of `max_attempts`, or the wait would use up `left`, the time until the
// deadline.
//
//   jitter   uniform in [0, 1); the wait is delay * (1 + kRetryJitter * jitter)
//
// Never shorter than the delay that the server named. Pure.
std::optional<absl::Duration> RetryWait(const absl::Status& failed,
                                        int attempts, int max_attempts,
                                        absl::Duration left, double jitter);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_RETRY_H_
