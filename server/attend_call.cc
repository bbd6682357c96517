#include "server/attend_call.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "server/guarded.h"
#include "server/status.h"

namespace attnd::server {
namespace {

// Of a request that is refused before it has a plan: as if every query saw
// every key, or half of them under causality.
Work WorkWithoutPlan(const v1::AttendRequest& request,
                     const RequestSizes& sizes, int64_t bytes) {
  const double visible = request.mask().causal() == v1::CAUSALITY_UNSPECIFIED ||
                                 request.mask().causal() == v1::CAUSALITY_NONE
                             ? 1
                             : 0.5;
  const double pairs = visible * static_cast<double>(sizes.batch) *
                       static_cast<double>(sizes.query_heads) *
                       static_cast<double>(sizes.queries) *
                       static_cast<double>(sizes.keys);
  return {.flops = 2 * pairs * static_cast<double>(sizes.dim + sizes.value_dim),
          .pairs = pairs,
          .bytes = static_cast<double>(bytes),
          .units = 1};
}

// Slices that own the tensors until gRPC has sent them.
grpc::ByteBuffer ToByteBuffer(std::vector<ReplyPiece> pieces) {
  std::vector<grpc::Slice> slices;
  for (ReplyPiece& piece : pieces) {
    if (!piece.text.empty()) slices.emplace_back(piece.text);
    if (piece.data_bytes == 0) continue;
    auto* owner = new AlignedBuffer(std::move(piece.data));
    slices.emplace_back(
        owner->data(), piece.data_bytes,
        [](void* buffer) { delete static_cast<AlignedBuffer*>(buffer); },
        owner);
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace

AttendCall::AttendCall(const ServiceContext& context,
                       grpc::CallbackServerContext& rpc,
                       grpc::ByteBuffer& reply)
    : context_(context),
      record_(context, Method::kAttend, rpc),
      reply_(reply) {}

void AttendCall::Begin(grpc::ByteBuffer& message) {
  const absl::Status status = Guarded([&] {
    absl::Status parsed = Parse(message);
    return parsed.ok() ? Prepare() : parsed;
  });
  if (!status.ok()) return End(status, JobResult{});
  // Even a problem without units has rows to fill.
  const auto units =
      std::max<int64_t>(1, static_cast<int64_t>(plan_->units().size()));
  context_.executor.Submit(*this, units, record_.deadline());
}

absl::Status AttendCall::Parse(grpc::ByteBuffer& message) {
  message_bytes_ = static_cast<int64_t>(message.Length());
  bool parsed = false;
  {
    grpc::ProtoBufferReader reader(&message);
    parsed = request_.ParseFromZeroCopyStream(&reader);
  }
  message.Clear();
  if (parsed) return absl::OkStatus();
  return Refuse(Reason::kInvalid,
                "the message is not a serialized attnd.v1.AttendRequest");
}

absl::Status AttendCall::Prepare() {
  const v1::ServerConfig& config = context_.config.effective;
  absl::StatusOr<DecodedRequest> decoded =
      Decode(request_,
             {.encodings = context_.encodings,
              .limits = config.limits(),
              .inline_encodings_allowed = config.inline_encodings().allowed()},
             Payload::kPresent);
  if (!decoded.ok()) return decoded.status();
  decoded_ = *std::move(decoded);
  context_.metrics.StageTook(
      Stage::kDecode,
      Seconds(std::chrono::steady_clock::now() - record_.arrival()));

  const int64_t bytes = message_bytes_ + decoded_.reply.bytes;
  absl::StatusOr<Admission::Ticket> ticket =
      context_.admission.Reserve(bytes + decoded_.plan_bytes);
  if (!ticket.ok()) {
    if (!record_.is_retry()) {
      context_.metrics.Offered(context_.costs.Predict(
          WorkWithoutPlan(request_, decoded_.sizes, bytes)));
    }
    return ticket.status();
  }
  ticket_ = *std::move(ticket);
  if (absl::Status status = PreparePlan(); !status.ok()) return status;

  predicted_seconds_ = context_.costs.Predict(WorkOf(*plan_, bytes));
  if (!record_.is_retry()) context_.metrics.Offered(predicted_seconds_);
  absl::Status admitted = context_.admission.Admit(
      ticket_, predicted_seconds_, static_cast<int64_t>(plan_->units().size()),
      std::chrono::steady_clock::now(), record_.deadline());
  if (admitted.ok()) context_.metrics.Admitted(predicted_seconds_);
  return admitted;
}

absl::Status AttendCall::PreparePlan() {
  const Instant start = std::chrono::steady_clock::now();
  absl::StatusOr<Plan> plan = Plan::Make(decoded_.problem);
  if (!plan.ok()) return FromPlan(plan.status(), decoded_.problem);
  plan_ = *std::move(plan);
  context_.metrics.StageTook(Stage::kPlan,
                             Seconds(std::chrono::steady_clock::now() - start));
  return absl::OkStatus();
}

absl::Status AttendCall::Start() {
  ticket_.Started();
  buffers_ = tensors_.Allocate(request_, decoded_.sizes,
                               decoded_.problem.outputs, decoded_.reply);
  FillEmptyRows(*plan_, buffers_);
  return absl::OkStatus();
}

absl::Status AttendCall::Run(int64_t unit, Workspace* workspace,
                             const std::atomic<bool>& stop) {
  if (plan_->units().empty()) return absl::OkStatus();
  UnitStats stats;
  absl::Status status =
      context_.run_unit(*plan_, unit, *workspace, buffers_, &stop, &stats);
  if (status.ok()) {
    skipped_tiles_ += stats.skipped_tiles;
    double lost = lost_mass_bound_;
    while (
        stats.lost_mass_bound > lost &&
        !lost_mass_bound_.compare_exchange_weak(lost, stats.lost_mass_bound)) {
    }
    const double share =
        static_cast<double>(plan_->units()[unit].flops) /
        static_cast<double>(std::max<int64_t>(1, plan_->flops()));
    ticket_.Spend(share * predicted_seconds_);
  }
  return status;
}

// Counts how the job ended and words it for the caller.
absl::Status AttendCall::CountEnd(const JobResult& result) {
  const EndedIn stage = result.started ? EndedIn::kCompute : EndedIn::kQueue;
  switch (result.status.code()) {
    case absl::StatusCode::kOk:
      return absl::OkStatus();
    case absl::StatusCode::kDeadlineExceeded:
      context_.metrics.Expired(stage);
      return result.status;
    case absl::StatusCode::kCancelled:
      context_.metrics.Cancelled(stage);
      return result.status;
    case absl::StatusCode::kUnavailable:
      return Refuse(Reason::kDraining, result.status.message(),
                    std::chrono::milliseconds(100));
    case absl::StatusCode::kResourceExhausted:
      return Refuse(Reason::kMemory, result.status.message());
    default:
      return Refuse(Reason::kInternal, result.status.message());
  }
}

void AttendCall::WriteReply(const JobResult& result) {
  v1::AttendResponse head;
  head.set_request_id(request_.request_id());
  v1::Stats& stats = *head.mutable_stats();
  stats.set_queue_seconds(result.queue_seconds);
  stats.set_compute_seconds(result.work_seconds);
  stats.set_flops(plan_->flops());
  stats.set_skipped_tiles(skipped_tiles_);
  stats.set_lost_mass_bound(lost_mass_bound_);
  stats.set_compute(v1::COMPUTE_PRECISION_F32);
  stats.set_instruction_set(InstructionSet());
  stats.set_config_hash(context_.config.hash);
  stats.set_config_generation(kConfigGeneration);
  stats.set_predicted_seconds(predicted_seconds_);
  reply_ = ToByteBuffer(tensors_.Serialize(head));
}

void AttendCall::Done(const JobResult& result) {
  ticket_.Release();
  context_.metrics.StageTook(Stage::kQueue, result.queue_seconds);
  if (result.started) {
    context_.metrics.StageTook(Stage::kCompute, result.wall_seconds);
  }
  const absl::Status status = CountEnd(result);
  if (status.ok()) {
    WriteReply(result);
    if (predicted_seconds_ > 0) {
      context_.metrics.CostRatio(result.work_seconds / predicted_seconds_);
    }
    context_.metrics.Answered(
        decoded_.encoding_name,
        Seconds(std::chrono::steady_clock::now() - record_.arrival()),
        static_cast<double>(plan_->flops()),
        static_cast<double>(decoded_.sizes.batch * decoded_.sizes.queries));
  }
  End(status, result);
}

void AttendCall::End(const absl::Status& status, const JobResult& result) {
  const grpc::Status end =
      record_.End(status, request_.request_id(), decoded_.encoding_name,
                  result.queue_seconds, result.work_seconds);
  if (!end.ok()) return Finish(end);
  // Finish serializes the reply on this thread, and may delete this.
  Metrics& metrics = context_.metrics;
  const Instant start = std::chrono::steady_clock::now();
  Finish(end);
  metrics.StageTook(Stage::kFinish,
                    Seconds(std::chrono::steady_clock::now() - start));
}

}  // namespace attnd::server
