#include "client/status_from_wire.h"

#include "absl/strings/cord.h"
#include "attnd/rpc/v1/error_details.pb.h"

namespace attnd::client {

absl::Status StatusFromWire(int code, absl::string_view message,
                            const std::string& details_bin) {
  if (code == 0) return absl::OkStatus();
  const bool known = code >= 1 && code <= 16;
  absl::Status status(
      known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
      message);
  rpc::v1::Status details;
  if (!details.ParseFromString(details_bin)) return status;
  for (const google::protobuf::Any& detail : details.details()) {
    // A status has one payload per type. Joining serialized messages is
    // protobuf's own merge, so two BadRequests become one with both lists.
    absl::Cord bytes =
        status.GetPayload(detail.type_url()).value_or(absl::Cord());
    bytes.Append(detail.value());
    status.SetPayload(detail.type_url(), bytes);
  }
  return status;
}

}  // namespace attnd::client
