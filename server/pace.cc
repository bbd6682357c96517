#include "server/pace.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace attnd::server {
namespace {

using std::chrono::steady_clock;

// How late a cancelled or expired unit may notice.
constexpr std::chrono::milliseconds kLook(2);

// Of the calling thread: waiting for a busy processor does not count, or a
// crowded machine would slow the server by `pace` times the wait.
double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

void Idle(double seconds, const std::atomic<bool>* stop) {
  const Instant end = steady_clock::now() + FromSeconds(seconds);
  while (stop == nullptr || !stop->load(std::memory_order_relaxed)) {
    const Instant now = steady_clock::now();
    if (now >= end) return;
    std::this_thread::sleep_for(
        std::min<steady_clock::duration>(end - now, kLook));
  }
}

}  // namespace

RunUnitFunction Paced(RunUnitFunction run, double pace) {
  return [run = std::move(run), pace](
             const Plan& plan, int64_t unit, Workspace& workspace,
             const OutputBuffers& out, const std::atomic<bool>* stop,
             UnitStats* stats) {
    const double start = ProcessorSeconds();
    absl::Status status = run(plan, unit, workspace, out, stop, stats);
    Idle((pace - 1) * (ProcessorSeconds() - start), stop);
    return status;
  };
}

CostModel Paced(const CostModel& costs, double pace) {
  CostModel::Rates rates = costs.rates();
  for (const CostModel::Term& term : CostModel::kTerms) {
    rates.*term.rate *= pace;
  }
  return CostModel(rates);
}

}  // namespace attnd::server
