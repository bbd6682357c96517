// One Estimate call: what a request would cost, from its shapes.
#ifndef ATTND_SERVER_ESTIMATE_CALL_H_
#define ATTND_SERVER_ESTIMATE_CALL_H_

#include "attnd/v1/attention.pb.h"
#include "server/decode.h"
#include "server/worker_call.h"

namespace attnd::server {

// Answers on the thread that begins it, or on a worker if the encoding must be
// compiled first or the plan takes long.
class EstimateCall final : public WorkerCall {
 public:
  // Request and reply are gRPC's until the call is done.
  EstimateCall(const ServiceContext& context, grpc::CallbackServerContext& rpc,
               const v1::EstimateRequest& request, v1::EstimateResponse& reply);
  void Begin();

 private:
  absl::Status Answer(Compiling compiling, const std::atomic<bool>* stop);
  absl::Status AnswerOnWorker(const std::atomic<bool>& stop) override;

  const v1::AttendRequest& request_;
  v1::EstimateResponse& reply_;
  double plan_seconds_ = 0;  // of a plan that takes long
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ESTIMATE_CALL_H_
