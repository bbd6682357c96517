// One Attend call from its headers to its status.
//
// gRPC treats it as a stream of bytes of which it reads one message. So the
// call is known before its message is there, which may be late or too much; a
// message that does not parse is refused with a reason; the bytes of a large
// request are let go of as soon as it is parsed, and a reply's tensors go out
// from where they were written.
#ifndef ATTND_SERVER_ATTEND_CALL_H_
#define ATTND_SERVER_ATTEND_CALL_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <mutex>
#include <optional>

#include "server/attend_work.h"
#include "server/call.h"
#include "server/receiving.h"
#include "server/send_limit.h"
#include "server/service_context.h"

namespace attnd::server {

// Constructed on a gRPC thread; ended by whoever ends the work. The reactor
// deletes itself in OnDone, which gRPC calls after Finish, the end of the read
// and any OnCancel, so that the work may be cancelled until then.
class AttendCall final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
      private AttendWork::Owner,
      private Receiving::Receiver {
 public:
  AttendCall(const ServiceContext& context, grpc::CallbackServerContext& rpc);

 private:
  void Begin();
  void Refuse(const absl::Status& status);

  // Receiving::Receiver; Refuse does all there is to do.
  void GiveUp(const absl::Status& refusal) override { Refuse(refusal); }

  // AttendWork::Owner.
  void Ended(Outcome outcome) override;

  // Reactor.
  void OnReadDone(bool ok) override;
  void OnSendInitialMetadataDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

  const ServiceContext& context_;
  grpc::CallbackServerContext& rpc_;
  CallRecord record_;
  grpc::ByteBuffer message_, reply_;
  std::optional<SendLimit> send_limit_;

  std::mutex mutex_;  // guards cancelled_, and work_ until it begins
  bool cancelled_ = false;
  std::optional<AttendWork> work_;  // once the message is there
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ATTEND_CALL_H_
