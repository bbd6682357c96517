// What every call needs; made by server.cc, outlives all calls.
#ifndef ATTND_SERVER_SERVICE_CONTEXT_H_
#define ATTND_SERVER_SERVICE_CONTEXT_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "kernels/attention.h"
#include "server/admission.h"
#include "server/cost_predictor.h"
#include "server/executor.h"
#include "server/load_report.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/receiving.h"
#include "server/settings.h"
#include "server/shadow_check.h"
#include "server/stream_flow.h"

namespace attnd::server {

// RunUnit of the kernels, or what a test puts in its place.
using RunUnitFunction = std::function<absl::Status(
    const Plan& plan, int64_t unit, Workspace& workspace,
    const OutputBuffers& out, const std::atomic<bool>* stop, UnitStats* stats)>;

// Counts the calls that gRPC has not finished with. Thread-safe.
class CallCount {
 public:
  void Enter() {
    std::lock_guard lock(mutex_);
    ++count_;
  }
  void Leave() {
    std::lock_guard lock(mutex_);
    if (--count_ == 0) zero_.notify_all();
  }
  // False when `until` came first.
  bool WaitForZero(Instant until) {
    std::unique_lock lock(mutex_);
    return zero_.wait_until(lock, until, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int64_t count_ = 0;
};

struct ServiceContext {
  const CurrentSettings& settings;
  CostPredictor& costs;
  const RunUnitFunction& run_unit;
  Admission& admission;
  Executor& executor;
  Metrics& metrics;
  Log& log;
  CallCount& calls;
  StreamRegistry& streams;
  Receiving& receiving;
  LoadReport& load_report;
  ShadowCheck& shadow_check;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_SERVICE_CONTEXT_H_
