#include "server/worker_call.h"

#include <chrono>
#include <utility>

namespace attnd::server {

WorkerCall::WorkerCall(const ServiceContext& context, Method method,
                       grpc::CallbackServerContext& rpc)
    : context_(context),
      record_(context, method, rpc),
      arrival_(record_.MessageArrived()) {}

absl::Status WorkerCall::Submit(double predicted_seconds, int priority) {
  if (!arrival_.is_retry) {
    context_.metrics.Offered(arrival_.tenant.id, predicted_seconds);
  }
  absl::StatusOr<Admission::Ticket> ticket =
      context_.admission.Reserve(0, arrival_.tenant);
  if (!ticket.ok()) return ticket.status();
  ticket_ = *std::move(ticket);
  absl::Status admitted =
      context_.admission.Admit(ticket_,
                               {.seconds = predicted_seconds,
                                .units = 1,
                                .deadline = arrival_.deadline,
                                .priority = priority},
                               std::chrono::steady_clock::now());
  if (!admitted.ok()) return admitted;
  context_.metrics.Admitted(predicted_seconds);
  context_.executor.Submit(*this, 1, arrival_.deadline,
                           {.tenant = arrival_.tenant.id,
                            .weight = arrival_.tenant.weight,
                            .priority = priority,
                            .seconds_per_unit = predicted_seconds});
  return absl::OkStatus();
}

absl::Status WorkerCall::Start() {
  ticket_.Started();
  return absl::OkStatus();
}

absl::Status WorkerCall::Run(int64_t, Workspace*,
                             const std::atomic<bool>& stop) {
  return AnswerOnWorker(stop);
}

void WorkerCall::Done(const JobResult& result) {
  End(Outcome{.status = CountEnd(result, context_.metrics),
              .queue_seconds = result.queue_seconds,
              .compute_seconds = result.work_seconds});
}

void WorkerCall::End(const Outcome& outcome) {
  ticket_.Release();
  Finish(record_.End(outcome, ""));
}

}  // namespace attnd::server
