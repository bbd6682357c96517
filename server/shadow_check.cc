#include "server/shadow_check.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "kernels/attention.h"
#include "server/decode.h"
#include "server/guarded.h"
#include "server/reference_check.h"

namespace attnd::server {
namespace {

// Pairs times columns that the reference works through in about a second.
constexpr double kMostWork = 1 << 23;
// Its matrices of doubles, and the copy of the request.
constexpr double kMostPairs = 1 << 20;
constexpr size_t kMostRequestBytes = size_t{32} << 20;

bool Checkable(const AttentionProblem& problem, absl::Span<const float> output,
               size_t request_bytes) {
  const Shape4& q = problem.query.shape();
  const double pairs = static_cast<double>(q.batch) *
                       static_cast<double>(q.heads * q.rows) *
                       static_cast<double>(problem.key.shape().rows);
  const auto columns = static_cast<double>(q.cols + problem.value.shape().cols);
  return !output.empty() && problem.prune_tolerance == 0 &&
         pairs <= kMostPairs && pairs * columns <= kMostWork &&
         request_bytes <= kMostRequestBytes;
}

}  // namespace

ShadowCheck::~ShadowCheck() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void ShadowCheck::Offer(const v1::AttendRequest& request,
                        const std::shared_ptr<const Settings>& settings,
                        const AttentionProblem* problem,
                        absl::Span<const float> output, bool bf16) {
  const int one_in = settings->config.effective.verification().shadow_one_in();
  if (one_in <= 0 || offered_++ % static_cast<uint64_t>(one_in) != 0) return;
  const bool taken =
      problem != nullptr &&
      Checkable(*problem, output, request.ByteSizeLong()) &&
      Take({request, settings, {output.begin(), output.end()}, bf16});
  if (!taken) metrics_.ShadowChecked(ShadowResult::kSkipped);
}

bool ShadowCheck::Take(Task task) {
  std::lock_guard lock(mutex_);
  if (busy_) return false;
  busy_ = true;
  task_ = std::move(task);
  if (!thread_.joinable()) {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "attnd-shadow");
      setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
      Run();
    });
  }
  wake_.notify_one();
  return true;
}

void ShadowCheck::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || task_.has_value(); });
    if (stopping_) return;
    const Task task = *std::move(task_);
    task_.reset();
    lock.unlock();
    Check(task);
    lock.lock();
    busy_ = false;
  }
}

void ShadowCheck::Check(const Task& task) {
  const absl::Status status = Guarded([&]() -> absl::Status {
    const auto decoded =
        Decode(task.request, DecodeContextOf(*task.settings, Compiling::kYes),
               Payload::kPresent);
    if (!decoded.ok()) return decoded.status();
    return CheckAgainstReference(decoded->problem, task.output,
                                 task.bf16 ? kBf16OutputError : kOutputError);
  });
  metrics_.ShadowChecked(status.ok() ? ShadowResult::kMatch
                                     : ShadowResult::kMismatch);
  if (status.ok()) return;
  log_.Error("shadow check", {{"request_id", task.request.request_id()},
                              {"encoding", task.request.encoding()},
                              {"message", status.message()}});
}

}  // namespace attnd::server
