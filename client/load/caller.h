// Makes calls without blocking and says when each has ended.
#ifndef ATTND_CLIENT_LOAD_CALLER_H_
#define ATTND_CLIENT_LOAD_CALLER_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/client.h"

namespace attnd::client {

using SteadyTime = std::chrono::steady_clock::time_point;

// A request ready to send: serialized once, shared by all calls that send it.
grpc::ByteBuffer Serialize(const v1::AttendRequest& request);

struct CompletedCall {
  // Which of the slots it occupied is free again.
  int slot = 0;
  SteadyTime started;
  SteadyTime ended;
  absl::Status status;
  int64_t response_bytes = 0;
};

// A number of slots, each with at most one call in flight, over a number of
// connections. One thread starts calls and takes their ends; answers are
// neither parsed nor kept, so that the measuring costs little. Calls are never
// retried.
class Caller {
 public:
  // Opens all connections and waits until each is ready; Unavailable when one
  // is not within `options.timeout`. Slot i uses connection i mod
  // `connections`.
  static absl::StatusOr<std::unique_ptr<Caller>> Connect(
      const ClientOptions& options, int connections, int slots);
  // Cancels what is in flight and waits for it.
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // Starts an Attend call in a free slot.
  void Start(int slot, const grpc::ByteBuffer& request);

  // The next call to end; nullopt at `until` if none has. There must be one in
  // flight.
  std::optional<CompletedCall> Next(SteadyTime until);

  int in_flight() const { return in_flight_; }

 private:
  struct Slot;

  Caller(const ClientOptions& options, int slots);

  absl::Duration timeout_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::vector<std::unique_ptr<Slot>> slots_;
  int in_flight_ = 0;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_CALLER_H_
