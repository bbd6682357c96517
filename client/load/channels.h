// The connections of a load test, and the names of who is at their other end.
#ifndef ATTND_CLIENT_LOAD_CHANNELS_H_
#define ATTND_CLIENT_LOAD_CHANNELS_H_

#include <grpcpp/channel.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/client.h"

namespace attnd::client {

using Channels = std::vector<std::shared_ptr<grpc::Channel>>;

// What to do while connections are not ready.
struct Waiting {
  // Called once after a second, with what is waited for, how long, and why the
  // last attempt failed.
  std::function<void(const std::string&)> tell = nullptr;
  // Set, it ends the wait.
  const std::atomic<bool>* stop = nullptr;
};

// Opens `connections` connections to every endpoint of the options, and waits
// until each channel is ready; Unavailable when one is not within
// `options.timeout`, Cancelled when stopped.
absl::StatusOr<Channels> ConnectChannels(const ClientOptions& options,
                                         int connections,
                                         const Waiting& waiting = {});

// Numbers endpoints in the order in which they are seen. One thread.
class EndpointNames {
 public:
  // Of gRPC's name of a peer, "ipv4:127.0.0.1:50051", or of whom a call would
  // have gone to that never got there, "127.0.0.1:50051"; -1 for none.
  int NumberOf(absl::string_view peer);
  // Without the scheme.
  std::string Name(int endpoint) const { return names_[endpoint]; }

 private:
  std::map<std::string, int, std::less<>> numbers_;
  std::vector<std::string> names_;
};

// When something `timeout_ns` ahead is over, on the clock that gRPC takes.
std::chrono::system_clock::time_point GrpcDeadline(int64_t timeout_ns);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_CHANNELS_H_
