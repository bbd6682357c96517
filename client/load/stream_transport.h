// Attempts as messages of AttendStream, one stream on each connection.
#ifndef ATTND_CLIENT_LOAD_STREAM_TRANSPORT_H_
#define ATTND_CLIENT_LOAD_STREAM_TRANSPORT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/load/channels.h"
#include "client/load/transport.h"

namespace attnd::client {

// A stream is opened by the first attempt on it, and again after it has ended;
// attempts in flight then end with its status. Time-outs are kept here, since
// the protocol gives a message none of its own: the server may go on computing.
// A tenant, being metadata, is one of the whole stream: that of the attempt
// that opened it.
class StreamTransport final : public Transport {
 public:
  // Slot i uses channel i mod their count. `payloads` must outlive this.
  StreamTransport(const ClientOptions& options, Channels channels, int slots,
                  const std::vector<Payload>& payloads);
  // Nothing may be in flight.
  ~StreamTransport() override;

  void Start(const Attempt& attempt) override;
  std::optional<AttemptEnd> Next() override;
  void Wake() override;
  grpc::ByteBuffer TakeAnswer(int slot) override;
  std::string EndpointName(int endpoint) override;

 private:
  struct State;
  const std::vector<Payload>& payloads_;
  std::unique_ptr<State> state_;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_STREAM_TRANSPORT_H_
