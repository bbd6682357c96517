// Compares a few of the answers given with the double-precision reference,
// beside the work that counts.
#ifndef ATTND_SERVER_SHADOW_CHECK_H_
#define ATTND_SERVER_SHADOW_CHECK_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/types/span.h"
#include "attnd/v1/attention.pb.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/settings.h"

namespace attnd::server {

// One at a time, on a thread of the lowest priority that begins with the first.
// Results are counted, a mismatch is logged. Thread-safe.
class ShadowCheck {
 public:
  ShadowCheck(Metrics& metrics, Log& log) : metrics_(metrics), log_(log) {}
  ~ShadowCheck();
  ShadowCheck(const ShadowCheck&) = delete;
  ShadowCheck& operator=(const ShadowCheck&) = delete;

  // An answer that is about to be sent. Of those that
  // verification.shadow_one_in picks it takes a copy, unless the last one is
  // not done, or the reference would take seconds, or has nothing to say (kind
  // LINEAR, 16-bit outputs, pruning): those are counted as skipped.
  void Offer(const v1::AttendRequest& request,
             const std::shared_ptr<const Settings>& settings,
             const AttentionProblem* problem, absl::Span<const float> output,
             bool bf16);

 private:
  struct Task {
    v1::AttendRequest request;
    std::shared_ptr<const Settings> settings;
    std::vector<float> output;
    bool bf16 = false;
  };
  bool Take(Task task);
  void Run();
  void Check(const Task& task);

  Metrics& metrics_;
  Log& log_;
  std::atomic<uint64_t> offered_{0};
  std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::optional<Task> task_;
  bool stopping_ = false, busy_ = false;
  std::thread thread_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_SHADOW_CHECK_H_
