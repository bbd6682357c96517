// What the server does with any bytes as an AttendRequest, up to the kernels:
// parse, check, decode, compile, plan, and, where that is cheap, compute. What
// is refused must be refused within the bounds of text; what is accepted must
// have the sizes that its reply was measured for.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "attnd/v1/attention.pb.h"
#include "kernels/attention.h"
#include "server/compile_cost.h"
#include "server/decode.h"
#include "server/status.h"

namespace {

using namespace attnd::server;  // NOLINT(google-build-using-namespace)

void Require(bool condition) {
  if (!condition) std::abort();
}

constexpr char kConfiguration[] = R"(
limits: {batch: 4, rows: 64, heads: 8, dim: 32, message_bytes: 1000000}
inline_encodings: {allowed: true, dense_dim: 8, cache_entries: 8}
encodings:
  - {name: alibi, time_unit: 1s, biases: [{alibi: {}}]}
  - {name: rope, time_unit: 1s, blocks: [{rotary: {pair_layout: half_split}}]}
  - {name: steps, time_unit: position, biases: [{alibi: {}}]}
)";

const Settings& TheSettings() {
  static const auto settings = *Settings::Make(
      *ParseConfig(kConfiguration, "fuzz.yaml", attnd::server::Machine{}));
  return *settings;
}

attnd::Workspace& TheWorkspace() {
  static const auto workspace = *attnd::Workspace::Create();
  return *workspace;
}

void CheckRefusal(const absl::Status& status) {
  const RpcError error = ToRpcError(status);
  Require(ReasonOf(status).has_value());
  Require(error.message.size() <= kMaxMessageBytes);
  Require(error.details.size() <= kMaxDetailsBytes);
}

void Compute(const attnd::v1::AttendRequest& request,
             const DecodedRequest& decoded, const attnd::Plan& plan) {
  ReplyTensors tensors;
  const attnd::OutputBuffers buffers =
      tensors.Allocate(request, decoded.sizes, decoded.problem.outputs,
                       decoded.problem.output_dtype, decoded.reply);
  attnd::FillEmptyRows(plan, buffers);
  Require(RunAll(plan, TheWorkspace(), buffers).ok());
  int64_t bytes = 0;
  for (const ReplyPiece& piece : tensors.Serialize({})) {
    bytes += static_cast<int64_t>(piece.text.size() + piece.data_bytes);
  }
  Require(bytes <= decoded.reply.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attnd::v1::AttendRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const Settings& settings = TheSettings();
  Require(PredictCompiling(request, settings.encodings) >= 0);
  for (const Payload payload : {Payload::kAbsent, Payload::kPresent}) {
    const auto decoded =
        Decode(request, DecodeContextOf(settings, Compiling::kYes), payload);
    if (!decoded.ok()) {
      CheckRefusal(decoded.status());
      continue;
    }
    // Its units are not those of a plan.
    if (request.kind() == attnd::v1::ATTENTION_KIND_LINEAR) continue;
    const auto plan = attnd::Plan::Make(decoded->problem);
    if (!plan.ok()) {
      CheckRefusal(FromPlan(plan.status(), decoded->problem));
    } else if (payload == Payload::kPresent && plan->flops() < 2'000'000) {
      Compute(request, *decoded, *plan);
    }
  }
  return 0;
}
