#include "server/call.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/status.h"

namespace attnd::server {
namespace {

// The wall clock is looked at once, here, and never again.
Instant DeadlineOf(const grpc::CallbackServerContext& rpc, Instant now,
                   double limit_seconds) {
  const auto seconds = [](std::chrono::system_clock::time_point t) {
    return std::chrono::duration<double>(t.time_since_epoch()).count();
  };
  const double left =
      seconds(rpc.deadline()) - seconds(std::chrono::system_clock::now());
  return now + FromSeconds(std::clamp(left, 0.0, limit_seconds));
}

}  // namespace

CallRecord::CallRecord(const ServiceContext& context, Method method,
                       grpc::CallbackServerContext& rpc)
    : context_(context),
      method_(method),
      rpc_(rpc),
      arrival_(std::chrono::steady_clock::now()),
      deadline_(
          DeadlineOf(rpc, arrival_,
                     context.config.effective.limits().deadline_seconds())) {
  context_.calls.Enter();
  context_.metrics.CallStarted(method);
}

bool CallRecord::is_retry() const {
  return rpc_.client_metadata().count("grpc-previous-rpc-attempts") > 0;
}

grpc::Status CallRecord::End(const absl::Status& status,
                             absl::string_view request_id,
                             absl::string_view encoding, double queue_seconds,
                             double compute_seconds) {
  const Instant now = std::chrono::steady_clock::now();
  const double seconds = Seconds(now - arrival_);
  if (const auto reason = ReasonOf(status)) context_.metrics.Rejected(*reason);
  const RpcError error = status.ok() ? RpcError{} : ToRpcError(status);
  context_.metrics.CallHandled(method_, error.code, seconds);
  if (error.retry_delay) {
    rpc_.AddTrailingMetadata("grpc-retry-pushback-ms",
                             absl::StrCat(error.retry_delay->count()));
  }
  if (const auto skipped = context_.log.AccessLine(now)) {
    context_.log.Info("request", {{"method", MethodName(method_)},
                                  {"request_id", request_id},
                                  {"encoding", encoding},
                                  {"code", error.code},
                                  {"message", error.message},
                                  {"seconds", seconds},
                                  {"queue_seconds", queue_seconds},
                                  {"compute_seconds", compute_seconds},
                                  {"peer", rpc_.peer()},
                                  {"skipped", *skipped}});
  }
  return status.ok() ? grpc::Status::OK
                     : grpc::Status(static_cast<grpc::StatusCode>(error.code),
                                    error.message, error.details);
}

}  // namespace attnd::server
