// How attnd's clients connect: target, credentials and channel arguments from
// ClientOptions. The library and the load tester share it, so that what is
// measured is what users get.
#ifndef ATTND_CLIENT_CHANNEL_H_
#define ATTND_CLIENT_CHANNEL_H_

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/client.h"

namespace attnd::client {

enum class ChannelUse {
  // round_robin over all addresses, endpoints that are not SERVING left out.
  kCalls,
  // One connection to whatever answers first, healthy or not.
  kHealth,
};

// Whether a pair can be sent as metadata: gRPC ends the program at a key or
// value that HTTP/2 cannot carry. Keys consist of a-z 0-9 _ . - and are not
// gRPC's or HTTP's own; values are printable ASCII, or any bytes where the key
// ends in "-bin". InvalidArgument says which of it is not so.
absl::Status CheckMetadata(absl::string_view key, absl::string_view value);

// InvalidArgument naming the first option that is out of its range.
absl::Status CheckOptions(const ClientOptions& options);

// The gRPC target that means all of `endpoints`. InvalidArgument for none, or
// for a list that one target cannot express.
absl::StatusOr<std::string> TargetOf(const std::vector<std::string>& endpoints);

// A channel that connects on its first call. `options` must have passed
// CheckOptions and TargetOf. Every channel owns its connections: two channels
// to one server make two.
std::shared_ptr<grpc::Channel> MakeChannel(const ClientOptions& options,
                                           ChannelUse use);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_CHANNEL_H_
