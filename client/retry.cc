#include "client/retry.h"

#include "client/error_details.h"

namespace attnd::client {

std::optional<absl::Duration> RetryWait(const absl::Status& failed,
                                        int attempts, int max_attempts,
                                        absl::Duration left, double jitter) {
  if (attempts >= max_attempts) return {};
  const std::optional<absl::Duration> delay =
      GetErrorDetails(failed).retry_delay;
  if (!delay) return {};
  const absl::Duration wait = *delay * (1 + kRetryJitter * jitter);
  if (wait >= left) return {};
  return wait;
}

}  // namespace attnd::client
