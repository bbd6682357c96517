#include "server/attention_service.h"

#include <grpcpp/support/server_callback.h>

#include <memory>

#include "attnd/v1/attention.grpc.pb.h"
#include "attnd_version.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "server/attend_call.h"
#include "server/attend_stream.h"
#include "server/call.h"
#include "server/estimate_call.h"
#include "server/guarded.h"
#include "server/list_call.h"

namespace attnd::server {
namespace {

void DescribeServer(const ServiceContext& context,
                    v1::GetServerInfoResponse& reply) {
  const std::shared_ptr<const Settings> settings = context.settings.Get();
  const Config& config = settings->config;
  reply.set_version(ATTND_VERSION);
  *reply.mutable_limits() = config.effective.limits();
  reply.set_instruction_set(InstructionSet());
  reply.set_workers(config.effective.workers());
  reply.set_config_generation(settings->generation);
  reply.set_config_hash(config.hash);
  reply.set_calibrated_flops(context.costs.model().flops_per_second());
  reply.set_native_bf16(TileGemm::NativeBf16());
}

// Callback methods, of which AttendStream takes and gives bytes.
using Methods = v1::AttentionScoring::WithGenericMethod_Attend<
    v1::AttentionScoring::WithRawCallbackMethod_AttendStream<
        v1::AttentionScoring::WithCallbackMethod_Estimate<
            v1::AttentionScoring::WithCallbackMethod_ListEncodings<
                v1::AttentionScoring::WithCallbackMethod_GetServerInfo<
                    v1::AttentionScoring::Service>>>>>;

class MethodService final : public Methods {
 public:
  explicit MethodService(const ServiceContext& context) : context_(context) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AttendStream(
      grpc::CallbackServerContext* rpc) override {
    return new server::AttendStream(context_, *rpc);
  }

  grpc::ServerUnaryReactor* Estimate(grpc::CallbackServerContext* rpc,
                                     const v1::EstimateRequest* request,
                                     v1::EstimateResponse* reply) override {
    auto* call = new EstimateCall(context_, *rpc, *request, *reply);
    call->Begin();
    return call;
  }

  grpc::ServerUnaryReactor* ListEncodings(
      grpc::CallbackServerContext* rpc, const v1::ListEncodingsRequest* request,
      v1::ListEncodingsResponse* reply) override {
    auto* call = new ListCall(context_, *rpc, *request, *reply);
    call->Begin();
    return call;
  }

  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* rpc, const v1::GetServerInfoRequest*,
      v1::GetServerInfoResponse* reply) override {
    return Answer(Method::kGetServerInfo, *rpc, [&] {
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
    const absl::Status status =
        record.access().ok() ? Guarded(function) : record.access();
    grpc::ServerUnaryReactor* reactor = rpc.DefaultReactor();
    reactor->Finish(record.End({.status = status}, ""));
    return reactor;
  }

  const ServiceContext& context_;
};

class AttendService final : public grpc::CallbackGenericService {
 public:
  explicit AttendService(const ServiceContext& context) : context_(context) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* rpc) override {
    if (rpc->method() == "/attnd.v1.AttentionScoring/Attend") {
      return new AttendCall(context_, *rpc);
    }
    return grpc::CallbackGenericService::CreateReactor(rpc);
  }

 private:
  const ServiceContext& context_;
};

}  // namespace

AttentionService MakeAttentionService(const ServiceContext& context) {
  return {.methods = std::make_unique<MethodService>(context),
          .attend = std::make_unique<AttendService>(context)};
}

}  // namespace attnd::server
