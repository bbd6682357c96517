// One Attend call from its message to its status.
//
// The method is a raw one: messages are bytes. So a message that does not parse
// is refused with a reason, the bytes of a large request are let go of as soon
// as it is parsed, and a reply's tensors go out from where they were written.
#ifndef ATTND_SERVER_ATTEND_CALL_H_
#define ATTND_SERVER_ATTEND_CALL_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <optional>

#include "server/attend_work.h"
#include "server/call.h"
#include "server/send_limit.h"
#include "server/service_context.h"

namespace attnd::server {

// Constructed and begun on a gRPC thread; ended by whoever ends the work. The
// reactor deletes itself in OnDone, which gRPC calls after Finish and after any
// OnCancel, so that the work may be cancelled until then.
class AttendCall final : public grpc::ServerUnaryReactor,
                         private AttendWork::Owner {
 public:
  // `reply` is gRPC's until the call is done; Finish sends it.
  AttendCall(const ServiceContext& context, grpc::CallbackServerContext& rpc,
             grpc::ByteBuffer& reply);

  // Parses `message` and lets go of it, then ends or submits the call.
  void Begin(grpc::ByteBuffer& message);

 private:
  void Ended(Outcome outcome) override;
  void OnCancel() override { work_.Cancel(); }
  void OnDone() override { delete this; }

  const ServiceContext& context_;
  grpc::CallbackServerContext& rpc_;
  CallRecord record_;
  grpc::ByteBuffer& reply_;
  std::optional<SendLimit> send_limit_;
  AttendWork work_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ATTEND_CALL_H_
