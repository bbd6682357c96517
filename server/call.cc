#include "server/call.h"

#include <grpc/grpc_security_constants.h>
#include <grpc/support/time.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/status.h"
#include "server/trace_context.h"

namespace attnd::server {
namespace {

// gRPC's clock is looked at once, here, and never again. What is further away
// than any limit allows is as good as no deadline. gRPC's own conversion to
// std::chrono overflows after 292 years.
Instant DeadlineOf(const grpc::CallbackServerContext& rpc, Instant now) {
  constexpr double kFarSeconds = 2e6;
  const gpr_timespec deadline = rpc.raw_deadline();
  const gpr_timespec left =
      gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  const double seconds = static_cast<double>(left.tv_sec) +
                         1e-9 * static_cast<double>(left.tv_nsec);
  return now + FromSeconds(std::clamp(seconds, 0.0, kFarSeconds));
}

// gRPC's own library removes its key where an application sends it, so our
// client has a key of its own.
bool IsRetry(const grpc::CallbackServerContext& rpc) {
  const auto& metadata = rpc.client_metadata();
  return metadata.count("grpc-previous-rpc-attempts") > 0 ||
         metadata.count("x-attnd-previous-attempts") > 0;
}

std::string Metadata(const grpc::CallbackServerContext& rpc,
                     const std::string& key) {
  const auto it = rpc.client_metadata().find(key);
  return it == rpc.client_metadata().end()
             ? std::string()
             : std::string(it->second.data(), it->second.size());
}

Caller CallerOf(const grpc::CallbackServerContext& rpc,
                const Settings& settings) {
  Caller caller = {.identities = {},
                   .authorization = Metadata(rpc, "authorization"),
                   .tenant = Metadata(rpc, settings.tenants.metadata_key())};
  const auto context = rpc.auth_context();
  if (context == nullptr || !context->IsPeerAuthenticated()) return caller;
  for (const grpc::string_ref& name :
       context->FindPropertyValues(GRPC_X509_SAN_PROPERTY_NAME)) {
    caller.identities.emplace_back(name.data(), name.size());
  }
  return caller;
}

// As HTTP/2 counts a list of headers: 32 bytes for each beside its text.
absl::Status CheckMetadata(const grpc::CallbackServerContext& rpc) {
  constexpr size_t kEach = 32;
  size_t bytes = 0;
  for (const auto& [key, value] : rpc.client_metadata()) {
    bytes += key.size() + value.size() + kEach;
  }
  if (bytes <= kMaxMetadataBytes) return absl::OkStatus();
  return RefuseSize("the call's metadata", static_cast<double>(bytes),
                    "metadata_bytes", kMaxMetadataBytes, "bytes");
}

absl::Status CheckCall(const grpc::CallbackServerContext& rpc,
                       const Settings& settings, Method method,
                       const Caller& caller) {
  absl::Status status = CheckMetadata(rpc);
  return status.ok() ? CheckAccess(settings, MethodName(method), caller)
                     : status;
}

// With three digits after the point; a formatted double takes five times as
// long.
std::string Milliseconds(double seconds) {
  const auto us = static_cast<int64_t>(std::llround(1e6 * seconds));
  return absl::StrCat(us / 1000, ".", absl::Dec(us % 1000, absl::kZeroPad3));
}

// The others are there when their message is.
bool BeginsWithoutMessage(Method method) {
  return method == Method::kAttend || method == Method::kAttendStream;
}

// Only what has the form is sent back and logged.
std::string TraceParentOf(const grpc::CallbackServerContext& rpc) {
  std::string text = Metadata(rpc, kTraceParentKey);
  return TraceIdOf(text).empty() ? std::string() : text;
}

}  // namespace

CallRecord::CallRecord(const ServiceContext& context, Method method,
                       grpc::CallbackServerContext& rpc)
    : context_(context),
      method_(method),
      rpc_(rpc),
      peer_(rpc.peer()),
      begun_(std::chrono::steady_clock::now()),
      arrival_(begun_),
      rpc_deadline_(DeadlineOf(rpc, arrival_)),
      is_retry_(IsRetry(rpc)),
      caller_(CallerOf(rpc, *context.settings.Get())),
      traceparent_(TraceParentOf(rpc)),
      access_(CheckCall(rpc, *context.settings.Get(), method, caller_)) {
  context_.calls.Enter();
  context_.metrics.CallStarted(method);
  if (!BeginsWithoutMessage(method)) context_.metrics.MessageReceived(method);
}

// A client whose deadline comes resets the call, and does so before the server
// sees the deadline come: on the wire it is rounded, up by a hundredth at most.
absl::Status CallRecord::WhyLeft() const {
  constexpr std::chrono::milliseconds kJitter(5);
  const Instant due = rpc_deadline_ - (rpc_deadline_ - begun_) / 100 - kJitter;
  if (std::chrono::steady_clock::now() < due) {
    return absl::CancelledError("the call was cancelled");
  }
  return absl::DeadlineExceededError("the call's deadline came");
}

Arrival CallRecord::MessageArrived() {
  Instant now = arrival_;
  if (BeginsWithoutMessage(method_)) {
    now = std::chrono::steady_clock::now();
    context_.metrics.MessageReceived(method_);
  }
  if (method_ == Method::kAttend) arrival_ = now;
  std::shared_ptr<const Settings> settings = context_.settings.Get();
  const double most = settings->limits().deadline_seconds();
  const Tenant& tenant = TenantOf(*settings, caller_);
  return {.method = method_,
          .at = now,
          .deadline = std::min(rpc_deadline_, now + FromSeconds(most)),
          .is_retry = is_retry_,
          .settings = std::move(settings),
          .tenant = tenant};
}

grpc::Status CallRecord::Finish(const absl::Status& status,
                                double compute_seconds) {
  rpc_.AddTrailingMetadata(
      kLoadReportKey,
      context_.load_report.CallEnded(status.ok(), compute_seconds,
                                     std::chrono::steady_clock::now()));
  if (!traceparent_.empty()) {
    rpc_.AddTrailingMetadata(kTraceParentKey, traceparent_);
  }
  const RpcError error = status.ok() ? RpcError{} : ToRpcError(status);
  if (error.retry_delay) {
    rpc_.AddTrailingMetadata("grpc-retry-pushback-ms",
                             absl::StrCat(error.retry_delay->count()));
  }
  return status.ok() ? grpc::Status::OK
                     : grpc::Status(static_cast<grpc::StatusCode>(error.code),
                                    error.message, error.details);
}

grpc::Status CallRecord::End(const Outcome& outcome,
                             absl::string_view request_id) {
  const absl::Status& status = outcome.status;
  const double seconds = Seconds(std::chrono::steady_clock::now() - arrival_);
  if (const auto reason = ReasonOf(status)) context_.metrics.Rejected(*reason);
  if (status.ok()) context_.metrics.MessageSent(method_);
  SendTimings(outcome);
  grpc::Status end = Finish(status, outcome.compute_seconds);
  context_.metrics.CallHandled(method_, end.error_code(), seconds);
  WriteLine(outcome, request_id, seconds, end.error_code(),
            end.error_message());
  return end;
}

// As HTTP's Server-Timing: milliseconds.
void CallRecord::SendTimings(const Outcome& outcome) {
  if (method_ != Method::kAttend) return;
  rpc_.AddTrailingMetadata(
      "server-timing",
      absl::StrCat("queue;dur=", Milliseconds(outcome.queue_seconds),
                   ", compute;dur=", Milliseconds(outcome.compute_seconds)));
}

grpc::Status CallRecord::EndStream(const absl::Status& status) {
  return Finish(status, 0);
}

void CallRecord::StreamEnded(const absl::Status& status) {
  const double seconds = Seconds(std::chrono::steady_clock::now() - begun_);
  const RpcError error = status.ok() ? RpcError{} : ToRpcError(status);
  context_.metrics.CallHandled(method_, error.code, seconds);
  if (const auto reason = ReasonOf(status)) context_.metrics.Rejected(*reason);
  if (status.ok()) return;
  WriteLine({.status = status}, "", seconds, error.code, error.message);
}

void CallRecord::MessageEnded(const Outcome& outcome,
                              absl::string_view request_id, Instant arrival) {
  const absl::Status& status = outcome.status;
  if (const auto reason = ReasonOf(status)) context_.metrics.Rejected(*reason);
  WriteLine(outcome, request_id,
            Seconds(std::chrono::steady_clock::now() - arrival),
            status.raw_code(), status.message());
}

void CallRecord::WriteLine(const Outcome& outcome, absl::string_view request_id,
                           double seconds, int code,
                           absl::string_view message) {
  const auto skipped =
      context_.log.AccessLine(std::chrono::steady_clock::now());
  if (!skipped) return;
  context_.log.Info("request", {{"method", MethodName(method_)},
                                {"request_id", request_id},
                                {"encoding", outcome.encoding},
                                {"code", code},
                                {"message", message},
                                {"seconds", seconds},
                                {"queue_seconds", outcome.queue_seconds},
                                {"compute_seconds", outcome.compute_seconds},
                                {"peer", peer_},
                                {"trace_id", TraceIdOf(traceparent_)},
                                {"skipped", *skipped}});
}

grpc::ByteBuffer ToByteBuffer(ReplyPieces pieces) {
  std::vector<grpc::Slice> slices;
  for (ReplyPiece& piece : pieces) {
    if (!piece.text.empty()) slices.emplace_back(piece.text);
    if (piece.data_bytes == 0) continue;
    auto* owner = new ReplyPiece(std::move(piece));
    slices.emplace_back(
        owner->data.data(), owner->data_bytes,
        [](void* sent) { delete static_cast<ReplyPiece*>(sent); }, owner);
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

bool ParseMessage(grpc::ByteBuffer& bytes,
                  google::protobuf::MessageLite& message) {
  bool parsed = false;
  {
    grpc::ProtoBufferReader reader(&bytes);
    parsed = message.ParseFromZeroCopyStream(&reader);
  }
  bytes.Clear();
  return parsed;
}

}  // namespace attnd::server
