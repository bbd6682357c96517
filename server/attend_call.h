// One Attend call from its message to its status.
#ifndef ATTND_SERVER_ATTEND_CALL_H_
#define ATTND_SERVER_ATTEND_CALL_H_

#include <grpcpp/support/server_callback.h>

#include <optional>
#include <string>

#include "attnd/v1/attention.pb.h"
#include "server/admission.h"
#include "server/call.h"
#include "server/decode.h"
#include "server/executor.h"
#include "server/service_context.h"

namespace attnd::server {

// Threads: constructed and begun on a gRPC thread, which decodes, plans and
// asks for admission; run on workers; ended by whoever does its last piece. The
// reactor deletes itself in OnDone, which gRPC calls after Finish and after any
// OnCancel, so the executor may borrow it until Done.
class AttendCall final : public grpc::ServerUnaryReactor, private Job {
 public:
  AttendCall(const ServiceContext& context, grpc::CallbackServerContext& rpc,
             const v1::AttendRequest& request, v1::AttendResponse& reply);

  // Ends or submits the call.
  void Begin();

 private:
  absl::Status Prepare();
  absl::Status PreparePlan();

  // Job.
  absl::Status Start() override;
  absl::Status Run(int64_t unit, Workspace* workspace,
                   const std::atomic<bool>& stop) override;
  void Done(const JobResult& result) override;
  absl::Status CountEnd(const JobResult& result);
  void FillStats(const JobResult& result);
  void End(const absl::Status& status, const JobResult& result);

  // Reactor.
  void OnCancel() override { context_.executor.Cancel(*this); }
  void OnDone() override { delete this; }

  const ServiceContext& context_;
  CallRecord record_;
  const v1::AttendRequest& request_;
  v1::AttendResponse& reply_;

  DecodedRequest decoded_;
  std::optional<Plan> plan_;
  OutputBuffers buffers_;
  double predicted_seconds_ = 0;
  Admission::Ticket ticket_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ATTEND_CALL_H_
