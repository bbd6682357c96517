// One AttendStream call: many independent requests, answered as they finish.
#ifndef ATTND_SERVER_ATTEND_STREAM_H_
#define ATTND_SERVER_ATTEND_STREAM_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "server/attend_work.h"
#include "server/call.h"
#include "server/cancellation.h"
#include "server/receiving.h"
#include "server/send_limit.h"
#include "server/service_context.h"
#include "server/stream_flow.h"

namespace attnd::server {

// Every message is admitted, computed, counted and logged as an Attend call's
// is, by way of AttendWork; StreamFlow says when to read, write and end. The
// reactor deletes itself in OnDone.
class AttendStream final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      private StreamFlow::Wire {
 public:
  AttendStream(const ServiceContext& context, grpc::CallbackServerContext& rpc);
  ~AttendStream() override;

 private:
  class Request;
  // What waits for the next message; may outlive the stream.
  struct Reading : Receiving::Receiver {
    explicit Reading(grpc::CallbackServerContext& rpc) : call(rpc) {}
    void GiveUp(const absl::Status&) override { call.Cancel(); }
    Cancellation call;
  };

  // StreamFlow::Wire.
  void Read() override;
  void Write(ReplyPieces reply) override;
  void End(StreamEnd end) override;

  // Reactor.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void Finish(const absl::Status& status);
  void Begin(std::shared_ptr<Request> request, const absl::Status& parsed,
             int64_t bytes);
  void Ended(Request& request, Outcome outcome);

  const ServiceContext& context_;
  grpc::CallbackServerContext& rpc_;
  CallRecord record_;
  const std::shared_ptr<StreamFlow> flow_;
  const std::shared_ptr<Reading> reading_;
  grpc::ByteBuffer message_, reply_;
  std::optional<SendLimit> send_limit_;  // of the write under way
  absl::Status end_;                     // as it was finished

  std::mutex mutex_;  // guards the two below
  std::map<Request*, std::shared_ptr<Request>> open_;
  bool cancelled_ = false;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ATTEND_STREAM_H_
