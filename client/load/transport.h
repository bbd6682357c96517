// How attempts travel.
#ifndef ATTND_CLIENT_LOAD_TRANSPORT_H_
#define ATTND_CLIENT_LOAD_TRANSPORT_H_

#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attnd/v1/attention.pb.h"
#include "client/load/conductor.h"

namespace attnd::client {

// Nanoseconds of the clock that nobody sets.
inline int64_t SteadyNs() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

// A request ready to send: serialized once, shared by all calls that send it.
struct Payload {
  grpc::ByteBuffer bytes;
  // Sent with it, beside what is sent with every call.
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

grpc::ByteBuffer Serialize(const v1::AttendRequest& request);

// A number of slots, each with at most one attempt in flight. Answers are not
// parsed, so that the measuring costs little.
class Transport {
 public:
  virtual ~Transport() = default;

  // Sends a request through a slot in which nothing is in flight. Any thread.
  virtual void Start(const Attempt& attempt) = 0;

  // Waits until an attempt has ended, with moments by SteadyNs(); nullopt after
  // a Wake(). One thread.
  virtual std::optional<AttemptEnd> Next() = 0;

  // Ends a Next() that waits, or the next one, where nothing is in flight. Any
  // thread; not again before that Next() has returned.
  virtual void Wake() = 0;

  // The AttendResponse of the attempt that Next() returned last for this slot.
  virtual grpc::ByteBuffer TakeAnswer(int slot) = 0;

  // "127.0.0.1:50051" of an endpoint's number.
  virtual std::string EndpointName(int endpoint) = 0;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_TRANSPORT_H_
