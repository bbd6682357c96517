// Work that lasts as long as a test wants.
#ifndef ATTND_TESTS_INTEGRATION_SLOW_WORK_H_
#define ATTND_TESTS_INTEGRATION_SLOW_WORK_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/status/status.h"
#include "kernels/attention.h"
#include "server/service_context.h"

namespace attnd::testing {

// Units wait here until released; a stopped one leaves at once.
class SlowWork {
 public:
  server::RunUnitFunction Function() {
    return [this](const Plan& plan, int64_t unit, Workspace& workspace,
                  const OutputBuffers& out, const std::atomic<bool>* stop,
                  UnitStats* stats) {
      ++started_;
      std::unique_lock lock(mutex_);
      while (permits_ == 0) {
        if (*stop) {
          ++stopped_;
          return absl::CancelledError("stopped");
        }
        // The kernels look at the flag between tiles, about this often.
        changed_.wait_for(lock, std::chrono::milliseconds(1));
      }
      --permits_;
      lock.unlock();
      return RunUnit(plan, unit, workspace, out, stop, stats);
    };
  }
  void Release(int units) {
    std::lock_guard lock(mutex_);
    permits_ += units;
    changed_.notify_all();
  }
  int started() const { return started_; }
  int stopped() const { return stopped_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int permits_ = 0;
  std::atomic<int> started_{0}, stopped_{0};
};

}  // namespace attnd::testing

#endif  // ATTND_TESTS_INTEGRATION_SLOW_WORK_H_
