// One ListEncodings call.
#ifndef ATTND_SERVER_LIST_CALL_H_
#define ATTND_SERVER_LIST_CALL_H_

#include "attnd/v1/attention.pb.h"
#include "server/worker_call.h"

namespace attnd::server {

// Answered by a worker: it compiles every encoding asked for at sizes that
// nobody may have asked for before.
class ListCall final : public WorkerCall {
 public:
  // Request and reply are gRPC's until the call is done.
  ListCall(const ServiceContext& context, grpc::CallbackServerContext& rpc,
           const v1::ListEncodingsRequest& request,
           v1::ListEncodingsResponse& reply);
  void Begin();

 private:
  absl::Status AnswerOnWorker(const std::atomic<bool>& stop) override;

  const v1::ListEncodingsRequest& request_;
  v1::ListEncodingsResponse& reply_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_LIST_CALL_H_
