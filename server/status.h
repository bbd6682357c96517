// Refusals: what a caller is told when there is no answer, and how that
// travels.
//
// Inside the server a refusal is an absl::Status whose payloads are google.rpc
// messages keyed by their type URL; at the edge it becomes an RpcError.
// README.md has the table of codes.
#ifndef ATTND_SERVER_STATUS_H_
#define ATTND_SERVER_STATUS_H_

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/message_lite.h"

namespace attnd::server {

// Why there is no answer: ErrorInfo.reason on the wire, and the label of
// attnd_rejected_total.
enum class Reason {
  kInvalid,      // INVALID_ARGUMENT
  kDuplicateId,  // INVALID_ARGUMENT; of a stream, another request has its id
  kUnknownEncoding,  // NOT_FOUND
  kForbidden,        // PERMISSION_DENIED
  kUnauthenticated,  // UNAUTHENTICATED
  kTooLarge,         // RESOURCE_EXHAUSTED; would be refused everywhere
  kMemory,           // RESOURCE_EXHAUSTED; an allocation failed
  kQuota,            // RESOURCE_EXHAUSTED; the tenant has used up its quota
  kQueueFull,        // UNAVAILABLE; come back after the stated delay
  kDraining,         // UNAVAILABLE; likewise, at another replica
  kHopeless,         // DEADLINE_EXCEEDED on arrival, nothing computed
  kInternal,         // INTERNAL; a bug
};
inline constexpr Reason kAllReasons[] = {
    Reason::kInvalid,   Reason::kDuplicateId,     Reason::kUnknownEncoding,
    Reason::kForbidden, Reason::kUnauthenticated, Reason::kTooLarge,
    Reason::kMemory,    Reason::kQuota,           Reason::kQueueFull,
    Reason::kDraining,  Reason::kHopeless,        Reason::kInternal};

// "QUEUE_FULL".
absl::string_view ReasonText(Reason reason);

// Texts on the wire stay below these, bytes: gRPC fails calls whose metadata
// exceeds 8 KiB in sum.
inline constexpr size_t kMaxMessageBytes = 1000;
inline constexpr size_t kMaxDetailsBytes = 4000;

// A refusal with ErrorInfo{reason}. `retry_delay` adds RetryInfo: our clients
// retry exactly when it is there. `metadata` goes into ErrorInfo.
absl::Status Refuse(
    Reason reason, absl::string_view message,
    std::optional<std::chrono::milliseconds> retry_delay = std::nullopt,
    std::initializer_list<std::pair<absl::string_view, std::string>> metadata =
        {});

// UNAVAILABLE with RetryInfo: another replica may answer.
absl::Status RefuseDraining(
    absl::string_view message = "the server is shutting down");

// NOT_FOUND with ResourceInfo, the known names and the nearest of them.
absl::Status RefuseEncoding(absl::string_view name,
                            absl::Span<const std::string> known);

// RESOURCE_EXHAUSTED with ResourceInfo{limit}: `what` needs `size`, more than
// the `limit_name` of `limit` (both in `unit`).
absl::Status RefuseSize(absl::string_view what, double size,
                        absl::string_view limit_name, double limit,
                        absl::string_view unit);

// RESOURCE_EXHAUSTED with QuotaFailure and RetryInfo.
absl::Status RefuseQuota(absl::string_view tenant, double worker_seconds,
                         std::chrono::milliseconds retry_delay);

// Adds a google.rpc message ("BadRequest") to a refusal.
void AttachDetail(absl::string_view name,
                  const google::protobuf::MessageLite& detail,
                  absl::Status& refusal);

// The reason inside a refusal; nullopt for other statuses.
std::optional<Reason> ReasonOf(const absl::Status& status);

// What gRPC needs to end a call.
struct RpcError {
  int code = 0;         // grpc::StatusCode
  std::string message;  // below kMaxMessageBytes
  std::string details;  // serialized google.rpc.Status, below kMaxDetailsBytes
  std::optional<std::chrono::milliseconds> retry_delay;
};
RpcError ToRpcError(const absl::Status& status);

}  // namespace attnd::server

#endif  // ATTND_SERVER_STATUS_H_
