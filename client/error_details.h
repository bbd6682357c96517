// What a refusal of attnd carries beside its code and text.
//
// Details travel in the payloads of an absl::Status under their public type
// URLs (type.googleapis.com/google.rpc.*), so that other code that knows those
// messages can read them as well.
#ifndef ATTND_CLIENT_ERROR_DETAILS_H_
#define ATTND_CLIENT_ERROR_DETAILS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attnd::client {

// A field of the request and what is wrong with it (google.rpc.BadRequest).
struct FieldViolation {
  // Path from the request: "key.shape", "mask.key_lengths[3]".
  std::string field;
  std::string description;
};

// A quota that was used up (google.rpc.QuotaFailure).
struct QuotaViolation {
  std::string subject;
  std::string description;
};

// What the error is about (google.rpc.ResourceInfo).
struct Resource {
  std::string type;
  std::string name;
  std::string owner;
  std::string description;
};

struct ErrorDetails {
  // Present exactly when the server allows another attempt: wait this long
  // first (google.rpc.RetryInfo).
  std::optional<absl::Duration> retry_delay;
  std::vector<FieldViolation> field_violations;
  std::vector<QuotaViolation> quota_violations;
  std::optional<Resource> resource;
  // google.rpc.ErrorInfo: a constant to switch on ("QUEUE_FULL"), its domain,
  // and figures as text.
  std::string reason;
  std::string domain;
  std::map<std::string, std::string> metadata;
};

// Reads the payloads of a status that a Client returned. Unknown and malformed
// payloads are passed over, so that any status may be given; one without
// details gives empty members. Thread-safe.
ErrorDetails GetErrorDetails(const absl::Status& status);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ERROR_DETAILS_H_
