// One Estimate call: what a request would cost, from its shapes.
#ifndef ATTND_SERVER_ESTIMATE_CALL_H_
#define ATTND_SERVER_ESTIMATE_CALL_H_

#include <grpcpp/support/server_callback.h>

#include <memory>

#include "attnd/v1/attention.pb.h"
#include "server/call.h"
#include "server/decode.h"
#include "server/executor.h"
#include "server/service_context.h"

namespace attnd::server {

// Answers on the thread that begins it, or on a worker if the encoding must be
// compiled first. Deletes itself in OnDone.
class EstimateCall final : public grpc::ServerUnaryReactor, private Job {
 public:
  // Request and reply are gRPC's until the call is done.
  EstimateCall(const ServiceContext& context, grpc::CallbackServerContext& rpc,
               const v1::EstimateRequest& request, v1::EstimateResponse& reply);
  void Begin();

 private:
  absl::Status Answer(Compiling compiling);
  absl::Status SubmitCompiling();
  void End(const absl::Status& status);

  // Job.
  absl::Status Start() override;
  absl::Status Run(int64_t unit, Workspace* workspace,
                   const std::atomic<bool>& stop) override;
  void Done(const JobResult& result) override;

  // Reactor.
  void OnCancel() override { context_.executor.Cancel(*this); }
  void OnDone() override { delete this; }

  const ServiceContext& context_;
  CallRecord record_;
  const Arrival arrival_;
  const v1::AttendRequest& request_;
  v1::EstimateResponse& reply_;
  Admission::Ticket ticket_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ESTIMATE_CALL_H_
