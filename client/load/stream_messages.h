// The messages of AttendStream around requests that are serialized already.
#ifndef ATTND_CLIENT_LOAD_STREAM_MESSAGES_H_
#define ATTND_CLIENT_LOAD_STREAM_MESSAGES_H_

#include <grpcpp/support/byte_buffer.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

// An AttendStreamRequest of a serialized AttendRequest, whose bytes are shared
// and not copied. Fields of protobuf may come twice, and the last counts: an id
// after the request replaces its own.
grpc::ByteBuffer StreamRequest(const std::vector<grpc::Slice>& request,
                               absl::string_view request_id);

// What a load test wants of an AttendStreamResponse.
struct StreamAnswer {
  std::string request_id;
  absl::Status status = absl::OkStatus();
};

// InternalError when the bytes are none.
absl::StatusOr<StreamAnswer> ReadStreamAnswer(grpc::ByteBuffer* bytes);

// The AttendResponse inside it; empty when there is none.
grpc::ByteBuffer UnwrapStreamAnswer(grpc::ByteBuffer* bytes);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_STREAM_MESSAGES_H_
