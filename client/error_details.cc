#include "client/error_details.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "attnd/rpc/v1/error_details.pb.h"
#include "google/protobuf/duration.pb.h"

namespace attnd::client {
namespace {

template <typename Message>
std::optional<Message> Payload(const absl::Status& status, const char* name) {
  const absl::optional<absl::Cord> bytes =
      status.GetPayload(absl::StrCat("type.googleapis.com/google.rpc.", name));
  Message message;
  if (!bytes || !message.ParseFromString(std::string(*bytes))) return {};
  return message;
}

// Nothing for what google.protobuf.Duration does not allow, and for negative
// delays: both mean that the server said nothing we can obey.
std::optional<absl::Duration> Delay(const google::protobuf::Duration& delay) {
  constexpr int64_t kMaxSeconds = 315'576'000'000;  // 10 000 years
  if (delay.seconds() < 0 || delay.seconds() > kMaxSeconds ||
      delay.nanos() < 0 || delay.nanos() > 999'999'999) {
    return {};
  }
  return absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
}

}  // namespace

ErrorDetails GetErrorDetails(const absl::Status& status) {
  ErrorDetails details;
  if (auto retry = Payload<rpc::v1::RetryInfo>(status, "RetryInfo")) {
    details.retry_delay = Delay(retry->retry_delay());
  }
  if (auto bad = Payload<rpc::v1::BadRequest>(status, "BadRequest")) {
    for (auto& violation : *bad->mutable_field_violations()) {
      details.field_violations.push_back(
          {std::move(*violation.mutable_field()),
           std::move(*violation.mutable_description())});
    }
  }
  if (auto quota = Payload<rpc::v1::QuotaFailure>(status, "QuotaFailure")) {
    for (auto& violation : *quota->mutable_violations()) {
      details.quota_violations.push_back(
          {std::move(*violation.mutable_subject()),
           std::move(*violation.mutable_description())});
    }
  }
  if (auto info = Payload<rpc::v1::ResourceInfo>(status, "ResourceInfo")) {
    details.resource = Resource{.type = info->resource_type(),
                                .name = info->resource_name(),
                                .owner = info->owner(),
                                .description = info->description()};
  }
  if (auto info = Payload<rpc::v1::ErrorInfo>(status, "ErrorInfo")) {
    details.reason = info->reason();
    details.domain = info->domain();
    details.metadata.insert(info->metadata().begin(), info->metadata().end());
  }
  return details;
}

}  // namespace attnd::client
