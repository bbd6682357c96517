#include "server/attend_work.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/compile_cost.h"
#include "server/guarded.h"
#include "server/status.h"

namespace attnd::server {
namespace {

// Of the linear kind, chunks of 64 rows.
Work LinearWork(const RequestSizes& sizes, const MessageBytes& bytes) {
  const double rows = static_cast<double>(sizes.batch) *
                      static_cast<double>(sizes.query_heads * sizes.queries +
                                          sizes.kv_heads * sizes.keys);
  const double columns = static_cast<double>(sizes.dim + sizes.value_dim);
  return {
      .requests = 1,
      .units = 1,
      .flops = rows * (64 * columns + 2 * static_cast<double>(sizes.dim) *
                                          static_cast<double>(sizes.value_dim)),
      .bytes = static_cast<double>(bytes.request),
      .reply_bytes = static_cast<double>(bytes.reply),
      .elements = rows * (kLinearRowElements + columns)};
}

// Of a request that is refused before it has a plan: as if every query saw
// every key, or half of them under causality.
Work WorkWithoutPlan(const v1::AttendRequest& request,
                     const RequestSizes& sizes, const MessageBytes& bytes) {
  if (request.kind() == v1::ATTENTION_KIND_LINEAR) {
    return LinearWork(sizes, bytes);
  }
  const double visible = request.mask().causal() == v1::CAUSALITY_UNSPECIFIED ||
                                 request.mask().causal() == v1::CAUSALITY_NONE
                             ? 1
                             : 0.5;
  const double pairs = visible * static_cast<double>(sizes.batch) *
                       static_cast<double>(sizes.query_heads) *
                       static_cast<double>(sizes.queries) *
                       static_cast<double>(sizes.keys);
  return {.requests = 1,
          .units = 1,
          .flops = 2 * pairs * static_cast<double>(sizes.dim + sizes.value_dim),
          .pairs = pairs,
          .blocks = pairs / kPairsPerBlock,
          .rows = static_cast<double>(sizes.batch) *
                  static_cast<double>(sizes.query_heads * sizes.queries +
                                      sizes.kv_heads * sizes.keys),
          .bytes = static_cast<double>(bytes.request),
          .reply_bytes = static_cast<double>(bytes.reply)};
}

// As its caller is told.
absl::Status RefusalOf(const JobResult& result) {
  if (ReasonOf(result.status)) return result.status;
  switch (result.status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
      return result.status;
    case absl::StatusCode::kUnavailable:
      return RefuseDraining(result.status.message());
    case absl::StatusCode::kResourceExhausted:
      return Refuse(Reason::kMemory, result.status.message());
    default:
      return Refuse(Reason::kInternal, result.status.message());
  }
}

double SecondsSince(Instant start) {
  return Seconds(std::chrono::steady_clock::now() - start);
}

}  // namespace

absl::Status CountEnd(const JobResult& result, Metrics& metrics) {
  const EndedIn stage = result.started ? EndedIn::kCompute : EndedIn::kQueue;
  if (!ReasonOf(result.status)) {
    if (result.status.code() == absl::StatusCode::kDeadlineExceeded) {
      metrics.Expired(stage);
    } else if (result.status.code() == absl::StatusCode::kCancelled) {
      metrics.Cancelled(stage);
    }
  }
  return RefusalOf(result);
}

AttendWork::AttendWork(const ServiceContext& context, const Arrival& arrival,
                       Owner& owner)
    : context_(context),
      arrival_(arrival),
      settings_(*arrival_.settings),
      owner_(owner),
      arena_(arena_start_, sizeof(arena_start_)),
      request_(
          *google::protobuf::Arena::CreateMessage<v1::AttendRequest>(&arena_)) {
}

void AttendWork::Begin(int64_t message_bytes) {
  message_bytes_ = message_bytes;
  absl::Status status =
      Guarded([&] { return Prepare(Compiling::kNo, nullptr); });
  if (IsWorkerNeeded(status)) {
    status = Guarded([&] { return SubmitPreparation(); });
    if (status.ok()) return;
  }
  if (!status.ok()) return End(status);
  Submit();
}

void AttendWork::Refuse(const absl::Status& status) { End(status); }

absl::Status AttendWork::Prepare(Compiling compiling,
                                 const std::atomic<bool>* stop) {
  if (is_decoded_) return Admit();
  const Instant start = compiling == Compiling::kNo
                            ? arrival_.at
                            : std::chrono::steady_clock::now();
  absl::StatusOr<DecodedRequest> decoded = Decode(
      request_, DecodeContextOf(settings_, compiling, stop), Payload::kPresent);
  if (!decoded.ok()) return decoded.status();
  decoded_ = *std::move(decoded);
  is_decoded_ = true;
  outcome_.encoding = decoded_.encoding_name;
  context_.metrics.StageTook(Stage::kDecode, SecondsSince(start));
  if (compiling == Compiling::kNo && decoded_.plan_seconds > kMostPlanSeconds) {
    return WorkerNeeded("the plan takes long");
  }
  return Admit();
}

absl::Status AttendWork::Admit() {
  const MessageBytes bytes = {.request = message_bytes_,
                              .reply = decoded_.reply.bytes};
  ticket_.Release();  // the preparation's
  absl::StatusOr<Admission::Ticket> ticket = context_.admission.Reserve(
      bytes.request + bytes.reply + decoded_.plan_bytes, arrival_.tenant);
  if (!ticket.ok()) {
    if (!arrival_.is_retry) {
      context_.metrics.Offered(
          arrival_.tenant.id,
          context_.costs.Predict(
              WorkWithoutPlan(request_, decoded_.sizes, bytes),
              decoded_.encoding_name));
    }
    return ticket.status();
  }
  ticket_ = *std::move(ticket);
  if (absl::Status status = MakePlan(); !status.ok()) return status;

  modelled_ = PlannedWork(bytes);
  predicted_seconds_ =
      context_.costs.Predict(modelled_, decoded_.encoding_name);
  if (!arrival_.is_retry)
    context_.metrics.Offered(arrival_.tenant.id, predicted_seconds_);
  absl::Status admitted =
      context_.admission.Admit(ticket_,
                               {.seconds = predicted_seconds_,
                                .units = units(),
                                .deadline = arrival_.deadline,
                                .priority = request_.priority()},
                               std::chrono::steady_clock::now());
  if (admitted.ok()) context_.metrics.Admitted(predicted_seconds_);
  return admitted;
}

absl::Status AttendWork::MakePlan() {
  const Instant start = std::chrono::steady_clock::now();
  if (decoded_.linear) {
    absl::StatusOr<std::unique_ptr<LinearRun>> run = LinearRun::Make(decoded_);
    if (!run.ok()) return run.status();
    linear_ = *std::move(run);
  } else {
    absl::StatusOr<Plan> plan = Plan::Make(decoded_.problem);
    if (!plan.ok()) return FromPlan(plan.status(), decoded_.problem);
    plan_ = *std::move(plan);
  }
  context_.metrics.StageTook(Stage::kPlan, SecondsSince(start));
  return absl::OkStatus();
}

// Compiling and long plans count as work like any other: they are admitted,
// wait their turn, and end with the deadline.
absl::Status AttendWork::SubmitPreparation() {
  prepared_seconds_ = is_decoded_
                          ? decoded_.plan_seconds
                          : PredictCompiling(request_, settings_.encodings);
  if (!arrival_.is_retry)
    context_.metrics.Offered(arrival_.tenant.id, prepared_seconds_);
  absl::StatusOr<Admission::Ticket> ticket =
      context_.admission.Reserve(message_bytes_, arrival_.tenant);
  if (!ticket.ok()) return ticket.status();
  ticket_ = *std::move(ticket);
  absl::Status admitted =
      context_.admission.Admit(ticket_,
                               {.seconds = prepared_seconds_,
                                .units = 1,
                                .deadline = arrival_.deadline,
                                .priority = request_.priority()},
                               std::chrono::steady_clock::now());
  if (!admitted.ok()) return admitted;
  context_.metrics.Admitted(prepared_seconds_);
  context_.executor.Submit(preparation_, 1, arrival_.deadline,
                           PlaceFor(prepared_seconds_, 1));
  return absl::OkStatus();
}

void AttendWork::Submit() {
  // Even a problem without units has rows to fill.
  const int64_t count = std::max<int64_t>(1, units());
  context_.executor.Submit(computation_, count, arrival_.deadline,
                           PlaceFor(predicted_seconds_, count),
                           RunOn::kCallerIfSmall);
}

int64_t AttendWork::units() const {
  return linear_ != nullptr ? linear_->units()
                            : static_cast<int64_t>(plan_->units().size());
}

int64_t AttendWork::flops() const {
  return linear_ != nullptr ? linear_->plan().flops() : plan_->flops();
}

Work AttendWork::PlannedWork(const MessageBytes& bytes) const {
  return linear_ != nullptr ? linear_->PredictedWork(bytes)
                            : WorkOf(*plan_, bytes);
}

Place AttendWork::PlaceFor(double seconds, int64_t units) const {
  return {.tenant = arrival_.tenant.id,
          .weight = arrival_.tenant.weight,
          .priority = request_.priority(),
          .seconds_per_unit = seconds / static_cast<double>(units)};
}

absl::Status AttendWork::Preparation::Start() {
  work_.ticket_.Started();
  return absl::OkStatus();
}

absl::Status AttendWork::Preparation::Run(int64_t, Workspace*,
                                          const std::atomic<bool>& stop) {
  return work_.Prepare(Compiling::kYes, &stop);
}

void AttendWork::Preparation::Done(const JobResult& result) {
  work_.outcome_.queue_seconds += result.queue_seconds;
  work_.outcome_.compute_seconds += result.work_seconds;
  if (result.status.ok()) return work_.Submit();
  const absl::Status status = CountEnd(result, work_.context_.metrics);
  work_.context_.metrics.StageTook(Stage::kQueue, result.queue_seconds);
  work_.End(status);
}

absl::Status AttendWork::Computation::Start() {
  AttendWork& w = work_;
  w.ticket_.Started();
  w.buffers_ = w.tensors_.Allocate(
      w.request_, w.decoded_.sizes, w.decoded_.problem.outputs,
      w.decoded_.problem.output_dtype, w.decoded_.reply);
  if (w.linear_ != nullptr) {
    w.linear_->Start(w.buffers_);
  } else {
    FillEmptyRows(*w.plan_, w.buffers_);
  }
  return absl::OkStatus();
}

absl::Status AttendWork::Computation::Run(int64_t unit, Workspace* workspace,
                                          const std::atomic<bool>& stop) {
  AttendWork& w = work_;
  if (w.units() == 0) return absl::OkStatus();
  if (w.linear_ != nullptr) {
    absl::Status status = w.linear_->Run(*workspace, stop);
    if (status.ok()) {
      w.ticket_.Spend(w.predicted_seconds_ / static_cast<double>(w.units()));
    }
    return status;
  }
  UnitStats stats;
  absl::Status status = w.context_.run_unit(*w.plan_, unit, *workspace,
                                            w.buffers_, &stop, &stats);
  if (status.ok()) {
    w.skipped_tiles_ += stats.skipped_tiles;
    double lost = w.lost_mass_bound_;
    while (stats.lost_mass_bound > lost &&
           !w.lost_mass_bound_.compare_exchange_weak(lost,
                                                     stats.lost_mass_bound)) {
    }
    const double share =
        static_cast<double>(w.plan_->units()[unit].flops) /
        static_cast<double>(std::max<int64_t>(1, w.plan_->flops()));
    w.ticket_.Spend(share * w.predicted_seconds_);
  }
  return status;
}

void AttendWork::WriteReply() {
  v1::AttendResponse head;
  head.set_request_id(request_.request_id());
  v1::Stats& stats = *head.mutable_stats();
  stats.set_queue_seconds(outcome_.queue_seconds);
  stats.set_compute_seconds(outcome_.compute_seconds);
  stats.set_flops(flops());
  stats.set_skipped_tiles(skipped_tiles_);
  stats.set_lost_mass_bound(lost_mass_bound_);
  stats.set_compute(plan_.has_value() && plan_->bf16()
                        ? v1::COMPUTE_PRECISION_BF16
                        : v1::COMPUTE_PRECISION_F32);
  stats.set_instruction_set(InstructionSet());
  stats.set_config_hash(settings_.config.hash);
  stats.set_config_generation(settings_.generation);
  stats.set_predicted_seconds(prepared_seconds_ + predicted_seconds_);
  if (linear_ != nullptr) {
    linear_->WriteState(head);
  } else {
    FinishKeyMass(*plan_, buffers_);
  }
  context_.shadow_check.Offer(request_, arrival_.settings,
                              plan_.has_value() ? &plan_->problem() : nullptr,
                              buffers_.output,
                              plan_.has_value() && plan_->bf16());
  outcome_.reply = tensors_.Serialize(head);
  ChargeReply();
}

// A caller who reads slowly, or not at all, holds memory that others cannot
// have: it stays charged until gRPC lets go of it.
void AttendWork::ChargeReply() {
  struct Charge {
    // Outlives the server in the hands of gRPC.
    std::shared_ptr<Admission> admission;
    Admission::Ticket ticket;
  };
  const auto charge = std::make_shared<Charge>(
      Charge{context_.admission.shared_from_this(), std::move(ticket_)});
  for (ReplyPiece& piece : outcome_.reply) {
    if (piece.data_bytes > 0) piece.charge = charge;
  }
}

void AttendWork::Computation::Done(const JobResult& result) {
  AttendWork& w = work_;
  Metrics& metrics = w.context_.metrics;
  w.ticket_.KeepBytes(result.status.ok() ? w.decoded_.reply.bytes : 0);
  w.outcome_.queue_seconds += result.queue_seconds;
  w.outcome_.compute_seconds += result.work_seconds;
  metrics.StageTook(Stage::kQueue, w.outcome_.queue_seconds);
  if (result.started) metrics.StageTook(Stage::kCompute, result.wall_seconds);
  absl::Status status = CountEnd(result, metrics);
  if (status.ok()) {
    status = Guarded([&] {
      w.WriteReply();
      return absl::OkStatus();
    });
  }
  if (status.ok()) {
    if (w.predicted_seconds_ > 0) {
      metrics.CostRatio(result.work_seconds / w.predicted_seconds_);
      w.context_.costs.Observe(w.modelled_, w.decoded_.encoding_name,
                               result.work_seconds);
    }
    metrics.Answered(
        w.arrival_.method, w.decoded_.encoding_name,
        SecondsSince(w.arrival_.at), static_cast<double>(w.flops()),
        static_cast<double>(w.decoded_.sizes.batch * w.decoded_.sizes.queries));
  }
  w.End(status);
}

void AttendWork::End(const absl::Status& status) {
  ticket_.Release();
  outcome_.status = status;
  owner_.Ended(std::move(outcome_));
}

}  // namespace attnd::server
