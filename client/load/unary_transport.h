// Attempts as unary Attend calls over a number of connections.
#ifndef ATTND_CLIENT_LOAD_UNARY_TRANSPORT_H_
#define ATTND_CLIENT_LOAD_UNARY_TRANSPORT_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/load/channels.h"
#include "client/load/transport.h"

namespace attnd::client {

class UnaryTransport final : public Transport {
 public:
  // `channels` are ready; slot i uses number i mod their count. `payloads` must
  // outlive this. gRPC's own retries apply as they do for the client library:
  // to calls that no server has seen.
  UnaryTransport(const ClientOptions& options, Channels channels, int slots,
                 const std::vector<Payload>& payloads);
  // Nothing may be in flight.
  ~UnaryTransport() override;

  void Start(const Attempt& attempt) override;
  std::optional<AttemptEnd> Next() override;
  void Wake() override;
  grpc::ByteBuffer TakeAnswer(int slot) override;
  std::string EndpointName(int endpoint) override;

 private:
  struct Slot;

  std::vector<std::pair<std::string, std::string>> metadata_;
  const std::vector<Payload>& payloads_;
  grpc::CompletionQueue queue_;
  grpc::Alarm wake_;
  Channels channels_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::vector<std::unique_ptr<Slot>> slots_;
  EndpointNames endpoints_;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_UNARY_TRANSPORT_H_
