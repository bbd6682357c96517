#include "server/estimate_call.h"

#include "server/compile_cost.h"
#include "server/guarded.h"
#include "server/linear_run.h"
#include "server/linear_wire.h"
#include "server/status.h"

namespace attnd::server {

EstimateCall::EstimateCall(const ServiceContext& context,
                           grpc::CallbackServerContext& rpc,
                           const v1::EstimateRequest& request,
                           v1::EstimateResponse& reply)
    : WorkerCall(context, Method::kEstimate, rpc),
      request_(request.request()),
      reply_(reply) {}

void EstimateCall::Begin() {
  if (!access().ok()) return End(access());
  absl::Status status =
      Guarded([&] { return Answer(Compiling::kNo, nullptr); });
  if (IsWorkerNeeded(status)) {
    status = Guarded([&] {
      return Submit(
          plan_seconds_ > 0
              ? plan_seconds_
              : PredictCompiling(request_, arrival_.settings->encodings),
          request_.priority());
    });
    if (status.ok()) return;
  }
  End(status);
}

absl::Status EstimateCall::Answer(Compiling compiling,
                                  const std::atomic<bool>* stop) {
  auto decoded =
      Decode(request_, DecodeContextOf(*arrival_.settings, compiling, stop),
             Payload::kAbsent);
  if (!decoded.ok()) return decoded.status();
  const RequestSizes& s = decoded->sizes;
  // The message that would come: its tensors, and what this one already has.
  const double payload =
      4.0 * static_cast<double>(s.batch) *
          (static_cast<double>(s.query_heads * s.queries * s.dim) +
           static_cast<double>(s.kv_heads * s.keys * (s.dim + s.value_dim))) +
      static_cast<double>(request_.ByteSizeLong());
  const int64_t limit = arrival_.settings->limits().message_bytes();
  if (payload > static_cast<double>(limit)) {
    return RefuseSize("the request with its payload", payload,
                      "limits.message_bytes", static_cast<double>(limit),
                      "bytes");
  }
  if (compiling == Compiling::kNo && decoded->plan_seconds > kMostPlanSeconds) {
    plan_seconds_ = decoded->plan_seconds;
    return WorkerNeeded("the plan takes long");
  }
  const MessageBytes messages = {.request = static_cast<int64_t>(payload),
                                 .reply = decoded->reply.bytes};
  const int64_t bytes = messages.request + messages.reply;
  // A plan takes memory here as it does for Attend.
  const auto ticket =
      context_.admission.Reserve(bytes + decoded->plan_bytes, arrival_.tenant);
  if (!ticket.ok()) return ticket.status();
  Work work;
  if (decoded->linear) {
    const auto run = LinearRun::Make(*decoded);
    if (!run.ok()) return run.status();
    work = (*run)->PredictedWork(messages);
    reply_.set_flops((*run)->plan().flops());
    reply_.set_state_bytes(LinearStateBytes((*run)->plan().state_shape()));
  } else {
    const absl::StatusOr<Plan> plan = Plan::Make(decoded->problem);
    if (!plan.ok()) return FromPlan(plan.status(), decoded->problem);
    work = WorkOf(*plan, messages);
    reply_.set_flops(plan->flops());
  }
  reply_.set_bytes(bytes + decoded->plan_bytes);
  reply_.set_response_bytes(decoded->reply.bytes);
  // A plan that takes long is charged as well.
  reply_.set_predicted_seconds(
      context_.costs.Predict(work, decoded->encoding_name) + plan_seconds_);
  reply_.set_predicted_wait_seconds(
      context_.admission.PredictWait(arrival_.deadline, arrival_.tenant));
  return absl::OkStatus();
}

absl::Status EstimateCall::AnswerOnWorker(const std::atomic<bool>& stop) {
  return Answer(Compiling::kYes, &stop);
}

}  // namespace attnd::server
