#include "server/attention_service.h"

#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attnd/v1/attention.grpc.pb.h"
#include "attnd_version.h"
#include "kernels/attention.h"
#include "server/attend_call.h"
#include "server/call.h"
#include "server/decode.h"
#include "server/guarded.h"
#include "server/list_encodings.h"
#include "server/status.h"
#include "server/violations.h"

namespace attnd::server {
namespace {

absl::Status EstimateCost(const ServiceContext& context,
                          const CallRecord& record,
                          const v1::AttendRequest& request,
                          v1::EstimateResponse& reply) {
  const v1::ServerConfig& config = context.config.effective;
  const auto decoded =
      Decode(request,
             {.encodings = context.encodings,
              .limits = config.limits(),
              .inline_encodings_allowed = config.inline_encodings().allowed()},
             Payload::kAbsent);
  if (!decoded.ok()) return decoded.status();
  const RequestSizes& s = decoded->sizes;
  // The message that would come: its tensors, and what this one already has.
  const double payload =
      4.0 * static_cast<double>(s.batch) *
          (static_cast<double>(s.query_heads * s.queries * s.dim) +
           static_cast<double>(s.kv_heads * s.keys * (s.dim + s.value_dim))) +
      static_cast<double>(request.ByteSizeLong());
  const int64_t limit = config.limits().message_bytes();
  if (payload > static_cast<double>(limit)) {
    return RefuseSize("the request with its payload", payload,
                      "limits.message_bytes", static_cast<double>(limit),
                      "bytes");
  }
  const int64_t bytes = static_cast<int64_t>(payload) + decoded->reply.bytes;
  // A plan takes memory here as it does for Attend.
  const auto ticket = context.admission.Reserve(bytes + decoded->plan_bytes);
  if (!ticket.ok()) return ticket.status();
  const absl::StatusOr<Plan> plan = Plan::Make(decoded->problem);
  if (!plan.ok()) return FromPlan(plan.status(), decoded->problem);
  reply.set_flops(plan->flops());
  reply.set_bytes(bytes + decoded->plan_bytes);
  reply.set_response_bytes(decoded->reply.bytes);
  reply.set_predicted_seconds(context.costs.Predict(WorkOf(*plan, bytes)));
  reply.set_predicted_wait_seconds(
      context.admission.PredictWait(record.deadline()));
  return absl::OkStatus();
}

void DescribeServer(const ServiceContext& context,
                    v1::GetServerInfoResponse& reply) {
  reply.set_version(ATTND_VERSION);
  *reply.mutable_limits() = context.config.effective.limits();
  reply.set_instruction_set(InstructionSet());
  reply.set_workers(context.config.effective.workers());
  reply.set_config_generation(kConfigGeneration);
  reply.set_config_hash(context.config.hash);
  reply.set_calibrated_flops(context.costs.flops_per_second());
}

// A stream that says that there are none yet.
class UnservedStream final
    : public grpc::ServerBidiReactor<v1::AttendStreamRequest,
                                     v1::AttendStreamResponse> {
 public:
  UnservedStream(const ServiceContext& context,
                 grpc::CallbackServerContext& rpc)
      : record_(context, Method::kAttendStream, rpc) {
    Violations violations;
    violations.AddUnserved("AttendStream");
    Finish(record_.End(violations.ToStatus(), "", "", 0, 0));
  }
  void OnDone() override { delete this; }

 private:
  CallRecord record_;
};

// Callback methods, of which Attend takes and gives bytes.
using Methods = v1::AttentionScoring::WithRawCallbackMethod_Attend<
    v1::AttentionScoring::WithCallbackMethod_AttendStream<
        v1::AttentionScoring::WithCallbackMethod_Estimate<
            v1::AttentionScoring::WithCallbackMethod_ListEncodings<
                v1::AttentionScoring::WithCallbackMethod_GetServerInfo<
                    v1::AttentionScoring::Service>>>>>;

class AttentionService final : public Methods {
 public:
  explicit AttentionService(const ServiceContext& context)
      : context_(context) {}

  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* rpc,
                                   const grpc::ByteBuffer* message,
                                   grpc::ByteBuffer* reply) override {
    auto* call = new AttendCall(context_, *rpc, *reply);
    // gRPC would keep the bytes until the call is done; nobody else reads them.
    call->Begin(*const_cast<grpc::ByteBuffer*>(message));
    return call;
  }

  grpc::ServerBidiReactor<v1::AttendStreamRequest, v1::AttendStreamResponse>*
  AttendStream(grpc::CallbackServerContext* rpc) override {
    return new UnservedStream(context_, *rpc);
  }

  grpc::ServerUnaryReactor* Estimate(grpc::CallbackServerContext* rpc,
                                     const v1::EstimateRequest* request,
                                     v1::EstimateResponse* reply) override {
    return Answer(Method::kEstimate, *rpc, [&](const CallRecord& record) {
      return EstimateCost(context_, record, request->request(), *reply);
    });
  }

  grpc::ServerUnaryReactor* ListEncodings(
      grpc::CallbackServerContext* rpc, const v1::ListEncodingsRequest* request,
      v1::ListEncodingsResponse* reply) override {
    return Answer(Method::kListEncodings, *rpc, [&](const CallRecord&) {
      reply->set_config_generation(kConfigGeneration);
      return server::ListEncodings(context_.encodings,
                                   context_.config.effective.limits(), *request,
                                   *reply);
    });
  }

  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* rpc, const v1::GetServerInfoRequest*,
      v1::GetServerInfoResponse* reply) override {
    return Answer(Method::kGetServerInfo, *rpc, [&](const CallRecord&) {
      DescribeServer(context_, *reply);
      return absl::OkStatus();
    });
  }

 private:
  // A call that is answered at once, on this thread.
  template <typename Function>
  grpc::ServerUnaryReactor* Answer(Method method,
                                   grpc::CallbackServerContext& rpc,
                                   Function function) {
    CallRecord record(context_, method, rpc);
    const absl::Status status = Guarded([&] { return function(record); });
    grpc::ServerUnaryReactor* reactor = rpc.DefaultReactor();
    reactor->Finish(record.End(status, "", "", 0, 0));
    return reactor;
  }

  const ServiceContext& context_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAttentionService(
    const ServiceContext& context) {
  return std::make_unique<AttentionService>(context);
}

}  // namespace attnd::server
