#include "server/linear_run.h"

#include <utility>

#include "kernels/linear_carry.h"
#include "server/linear_request.h"
#include "server/linear_wire.h"

namespace attnd::server {

SegmentQueue::SegmentQueue(int64_t heads, int64_t segments)
    : left_(heads, segments) {
  for (int64_t head = 0; head < heads; ++head) idle_.push_back(head);
}

int64_t SegmentQueue::Take() {
  std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    ++owed_;
    return -1;
  }
  const int64_t head = idle_.front();
  idle_.pop_front();
  return head;
}

int64_t SegmentQueue::Done(int64_t head) {
  std::lock_guard lock(mutex_);
  // To the front: what it reads is in somebody's cache.
  if (--left_[head] > 0) idle_.push_front(head);
  if (owed_ == 0 || idle_.empty()) return -1;
  --owed_;
  const int64_t next = idle_.front();
  idle_.pop_front();
  return next;
}

absl::StatusOr<std::unique_ptr<LinearRun>> LinearRun::Make(
    DecodedRequest& decoded) {
  absl::StatusOr<LinearPlan> plan =
      LinearPlan::Make(LinearProblemOf(decoded.problem, *decoded.linear));
  if (!plan.ok()) return FromPlan(plan.status(), decoded.problem);
  return std::unique_ptr<LinearRun>(
      new LinearRun(*std::move(plan), *decoded.linear));
}

LinearRun::LinearRun(LinearPlan plan, DecodedLinear& linear)
    : plan_(std::move(plan)),
      linear_(linear),
      queue_(plan_.heads(), plan_.segments()) {}

void LinearRun::Start(const OutputBuffers& buffers) {
  heads_ = std::vector<Head>(plan_.heads());
  if (linear_.return_state) state_ = StartState(plan_);
  buffers_ = {.output = buffers.output,
              .halves = buffers.halves,
              .state = linear_.return_state ? &state_ : nullptr};
  FillEmptyLinearRows(plan_, buffers_);
}

// Heads that nobody computes hold no sums, whatever their number.
void LinearRun::Begin(int64_t head) {
  heads_[head].progress = std::make_unique<LinearProgress>();
  if (linear_.parts.empty()) return;
  MergeLinearHead(plan_.problem().attention.encoder.get(), PartsOf(linear_),
                  head, *linear_.initial);
}

absl::Status LinearRun::Run(Workspace& workspace,
                            const std::atomic<bool>& stop) {
  absl::StatusOr<LinearWorkspace*> linear = workspace.Linear();
  if (!linear.ok()) return linear.status();
  int64_t head = queue_.Take();
  while (head >= 0) {
    Head& its = heads_[head];
    if (its.segments == 0) Begin(head);
    absl::Status status =
        RunLinearSegment(plan_, head, *its.progress, **linear, buffers_, &stop);
    if (!status.ok()) return status;
    if (++its.segments == plan_.segments()) its.progress.reset();
    head = queue_.Done(head);
  }
  return absl::OkStatus();
}

Work LinearRun::PredictedWork(const MessageBytes& bytes) const {
  Work work = WorkOf(plan_, bytes);
  work.elements += MergedElements(plan_, linear_.parts.size());
  return work;
}

void LinearRun::WriteState(v1::AttendResponse& reply) const {
  if (!linear_.return_state) return;
  WriteLinearState(state_, linear_.state_hash, *reply.mutable_final_state());
}

}  // namespace attnd::server
