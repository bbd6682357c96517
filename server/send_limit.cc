#include "server/send_limit.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <chrono>

namespace attnd::server {
namespace {

// On gRPC's monotonic clock.
gpr_timespec ToGrpc(Instant end) {
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
      end - std::chrono::steady_clock::now());
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(std::max<int64_t>(0, left.count()), GPR_TIMESPAN));
}

}  // namespace

SendLimit::SendLimit(grpc::CallbackServerContext& rpc, Instant end)
    : call_(std::make_shared<Cancellation>(rpc)) {
  alarm_.Set(ToGrpc(end), [call = call_](bool due) {
    if (due) call->Cancel();
  });
}

}  // namespace attnd::server
