#include "server/status.h"

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "attnd/rpc/v1/error_details.pb.h"
#include "server/text.h"

namespace attnd::server {
namespace {

constexpr absl::string_view kTypePrefix = "type.googleapis.com/google.rpc.";
constexpr absl::string_view kDomain = "attnd.dev";

struct ReasonInfo {
  absl::string_view text;
  absl::StatusCode code;
};

ReasonInfo Info(Reason reason) {
  switch (reason) {
    case Reason::kInvalid:
      return {"INVALID", absl::StatusCode::kInvalidArgument};
    case Reason::kDuplicateId:
      return {"DUPLICATE_ID", absl::StatusCode::kInvalidArgument};
    case Reason::kUnknownEncoding:
      return {"UNKNOWN_ENCODING", absl::StatusCode::kNotFound};
    case Reason::kForbidden:
      return {"FORBIDDEN", absl::StatusCode::kPermissionDenied};
    case Reason::kTooLarge:
      return {"TOO_LARGE", absl::StatusCode::kResourceExhausted};
    case Reason::kMemory:
      return {"MEMORY", absl::StatusCode::kResourceExhausted};
    case Reason::kQuota:
      return {"QUOTA", absl::StatusCode::kResourceExhausted};
    case Reason::kUnauthenticated:
      return {"UNAUTHENTICATED", absl::StatusCode::kUnauthenticated};
    case Reason::kQueueFull:
      return {"QUEUE_FULL", absl::StatusCode::kUnavailable};
    case Reason::kDraining:
      return {"DRAINING", absl::StatusCode::kUnavailable};
    case Reason::kHopeless:
      return {"HOPELESS", absl::StatusCode::kDeadlineExceeded};
    case Reason::kInternal:
      break;
  }
  return {"INTERNAL", absl::StatusCode::kInternal};
}

template <typename Message>
bool GetDetail(const absl::Status& status, absl::string_view name,
               Message& detail) {
  const auto payload = status.GetPayload(absl::StrCat(kTypePrefix, name));
  return payload && detail.ParseFromString(std::string(*payload));
}

}  // namespace

absl::string_view ReasonText(Reason reason) { return Info(reason).text; }

absl::Status Refuse(
    Reason reason, absl::string_view message,
    std::optional<std::chrono::milliseconds> retry_delay,
    std::initializer_list<std::pair<absl::string_view, std::string>> metadata) {
  const ReasonInfo info = Info(reason);
  absl::Status status(info.code, Clip(message, kMaxMessageBytes));
  rpc::v1::ErrorInfo error;
  error.set_reason(std::string(info.text));
  error.set_domain(std::string(kDomain));
  for (const auto& [key, value] : metadata) {
    (*error.mutable_metadata())[std::string(key)] = value;
  }
  AttachDetail("ErrorInfo", error, status);
  if (retry_delay) {
    rpc::v1::RetryInfo retry;
    const int64_t ms = retry_delay->count();
    retry.mutable_retry_delay()->set_seconds(ms / 1000);
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(ms % 1000 * 1000000));
    AttachDetail("RetryInfo", retry, status);
  }
  return status;
}

absl::Status RefuseDraining(absl::string_view message) {
  return Refuse(Reason::kDraining, message, std::chrono::milliseconds(100));
}

absl::Status RefuseEncoding(absl::string_view name,
                            absl::Span<const std::string> known) {
  const std::string shown = Clip(name, 64);
  const absl::string_view nearest = Nearest(name, known);
  const std::string names = Clip(absl::StrJoin(known, ", "), 600);
  absl::Status status =
      Refuse(Reason::kUnknownEncoding,
             absl::StrCat("encoding: \"", shown, "\" is not configured",
                          nearest.empty() ? "" : "; did you mean \"", nearest,
                          nearest.empty() ? "." : "\"?", " Known: ", names));
  rpc::v1::ResourceInfo info;
  info.set_resource_type("encoding");
  info.set_resource_name(shown);
  info.set_description(absl::StrCat("known encodings: ", names));
  AttachDetail("ResourceInfo", info, status);
  return status;
}

absl::Status RefuseSize(absl::string_view what, double size,
                        absl::string_view limit_name, double limit,
                        absl::string_view unit) {
  const std::string text = absl::StrCat(
      what, ": ", absl::StrFormat("%.*f", size < 100 ? 3 : 0, size), " ", unit,
      ", more than ", limit_name, " = ",
      absl::StrFormat("%.*f", limit < 100 ? 3 : 0, limit), " ", unit);
  absl::Status status = Refuse(Reason::kTooLarge, text);
  rpc::v1::ResourceInfo info;
  info.set_resource_type("limit");
  info.set_resource_name(std::string(limit_name));
  info.set_description(text);
  AttachDetail("ResourceInfo", info, status);
  return status;
}

absl::Status RefuseQuota(absl::string_view tenant, double worker_seconds,
                         std::chrono::milliseconds retry_delay) {
  const std::string text = absl::StrFormat(
      "tenant \"%s\" has used up its quota of %g worker seconds per second; "
      "retry after %d ms",
      Clip(tenant, 128), worker_seconds, retry_delay.count());
  absl::Status status = Refuse(Reason::kQuota, text, retry_delay);
  rpc::v1::QuotaFailure failure;
  rpc::v1::QuotaFailure::Violation& violation = *failure.add_violations();
  violation.set_subject(absl::StrCat("tenant:", Clip(tenant, 128)));
  violation.set_description(text);
  AttachDetail("QuotaFailure", failure, status);
  return status;
}

void AttachDetail(absl::string_view name,
                  const google::protobuf::MessageLite& detail,
                  absl::Status& refusal) {
  refusal.SetPayload(absl::StrCat(kTypePrefix, name),
                     absl::Cord(detail.SerializeAsString()));
}

std::optional<Reason> ReasonOf(const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  rpc::v1::ErrorInfo info;
  if (!GetDetail(status, "ErrorInfo", info)) return std::nullopt;
  for (Reason reason : kAllReasons) {
    if (info.reason() == ReasonText(reason)) return reason;
  }
  return std::nullopt;
}

RpcError ToRpcError(const absl::Status& status) {
  RpcError error;
  // absl and gRPC share the numbers; UNKNOWN would tell a caller nothing.
  error.code = status.code() == absl::StatusCode::kUnknown
                   ? static_cast<int>(absl::StatusCode::kInternal)
                   : static_cast<int>(status.code());
  error.message = Clip(status.message(), kMaxMessageBytes);
  rpc::v1::Status details;
  details.set_code(error.code);
  details.set_message(error.message);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    if (!absl::StartsWith(url, kTypePrefix)) return;
    auto* any = details.add_details();
    any->set_type_url(std::string(url));
    any->set_value(std::string(payload));
  });
  if (details.ByteSizeLong() > kMaxDetailsBytes) details.clear_details();
  error.details = details.SerializeAsString();
  rpc::v1::RetryInfo retry;
  if (GetDetail(status, "RetryInfo", retry)) {
    error.retry_delay =
        std::chrono::milliseconds(retry.retry_delay().seconds() * 1000 +
                                  retry.retry_delay().nanos() / 1000000);
  }
  return error;
}

}  // namespace attnd::server
