#include "server/list_call.h"

#include "server/compile_cost.h"
#include "server/list_encodings.h"

namespace attnd::server {

ListCall::ListCall(const ServiceContext& context,
                   grpc::CallbackServerContext& rpc,
                   const v1::ListEncodingsRequest& request,
                   v1::ListEncodingsResponse& reply)
    : WorkerCall(context, Method::kListEncodings, rpc),
      request_(request),
      reply_(reply) {}

void ListCall::Begin() {
  if (!access().ok()) return End(access());
  const absl::Status checked =
      CheckListing(request_, arrival_.settings->limits());
  if (!checked.ok()) return End(checked);
  const absl::Status submitted = Submit(
      PredictListing(request_, arrival_.settings->encodings), /*priority=*/0);
  if (!submitted.ok()) End(submitted);
}

absl::Status ListCall::AnswerOnWorker(const std::atomic<bool>& stop) {
  reply_.set_config_generation(arrival_.settings->generation);
  return ListEncodings(arrival_.settings->encodings,
                       arrival_.settings->limits(), request_, reply_, &stop);
}

}  // namespace attnd::server
