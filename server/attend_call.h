// One Attend call from its message to its status.
//
// The method is a raw one: messages are bytes. So a message that does not parse
// is refused with a reason, the bytes of a large request are let go of as soon
// as it is parsed, and a reply's tensors go out from where they were written.
#ifndef ATTND_SERVER_ATTEND_CALL_H_
#define ATTND_SERVER_ATTEND_CALL_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "attnd/v1/attention.pb.h"
#include "server/admission.h"
#include "server/call.h"
#include "server/decode.h"
#include "server/executor.h"
#include "server/reply.h"
#include "server/service_context.h"

namespace attnd::server {

// Threads: constructed and begun on a gRPC thread, which decodes, plans and
// asks for admission; run on workers; ended by whoever does its last piece. The
// reactor deletes itself in OnDone, which gRPC calls after Finish and after any
// OnCancel, so the executor may borrow it until Done.
class AttendCall final : public grpc::ServerUnaryReactor, private Job {
 public:
  // `reply` is gRPC's until the call is done; Finish sends it.
  AttendCall(const ServiceContext& context, grpc::CallbackServerContext& rpc,
             grpc::ByteBuffer& reply);

  // Parses `message` and lets go of it, then ends or submits the call.
  void Begin(grpc::ByteBuffer& message);

 private:
  absl::Status Parse(grpc::ByteBuffer& message);
  absl::Status Prepare();
  absl::Status PreparePlan();

  // Job.
  absl::Status Start() override;
  absl::Status Run(int64_t unit, Workspace* workspace,
                   const std::atomic<bool>& stop) override;
  void Done(const JobResult& result) override;
  absl::Status CountEnd(const JobResult& result);
  void WriteReply(const JobResult& result);
  void End(const absl::Status& status, const JobResult& result);

  // Reactor.
  void OnCancel() override { context_.executor.Cancel(*this); }
  void OnDone() override { delete this; }

  const ServiceContext& context_;
  CallRecord record_;
  grpc::ByteBuffer& reply_;

  v1::AttendRequest request_;
  int64_t message_bytes_ = 0;
  DecodedRequest decoded_;
  std::optional<Plan> plan_;
  ReplyTensors tensors_;
  OutputBuffers buffers_;
  double predicted_seconds_ = 0;
  // Over the units that are done, on any worker.
  std::atomic<int64_t> skipped_tiles_{0};
  std::atomic<double> lost_mass_bound_{0};
  Admission::Ticket ticket_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ATTEND_CALL_H_
