#include "client/load/self_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/duration_text.h"

namespace attnd::client {

std::vector<std::string> Invalidities(const LoadResult& result,
                                      int64_t lag_bound_ns) {
  std::vector<std::string> reasons;
  if (result.interrupted) {
    reasons.push_back("interrupted before its end: the rest was not measured");
  }
  if (result.all.ok + result.all.failed + result.dropped == 0) {
    reasons.push_back("no call was measured");
  } else if (result.all.ok == 0) {
    reasons.push_back(
        absl::StrCat("none of ", result.planned, " calls succeeded"));
  }
  const double busy = result.run_seconds > 0
                          ? result.thread_cpu_seconds / result.run_seconds
                          : 0;
  if (busy > kBusyThread && result.run_seconds >= kShortestCpuCheckSeconds) {
    reasons.push_back(absl::StrFormat(
        "the client was the bottleneck: its busiest thread used %.0f %% of a "
        "processor, expected at most %.0f %%; ask for less, or start several "
        "clients",
        100 * busy, 100 * kBusyThread));
  }
  if (lag_bound_ns == 0) {
    lag_bound_ns = std::max(
        kSmallestLagBoundNs,
        static_cast<int64_t>(
            kLagShare *
            static_cast<double>(result.all.latency_ns.ValueAtPercentile(50))));
  }
  const int64_t lag_ns = result.lag_ns.ValueAtPercentile(99);
  if (lag_ns > lag_bound_ns) {
    reasons.push_back(
        absl::StrCat("the client was late: it sent 1 % of the calls ",
                     DurationText(static_cast<double>(lag_ns)),
                     " or more after their time, expected at most ",
                     DurationText(static_cast<double>(lag_bound_ns)),
                     " (--max-lag); its machine is busy"));
  }
  return reasons;
}

std::vector<std::string> Remarks(const LoadResult& result) {
  std::vector<std::string> remarks;
  if (result.dropped > 0) {
    remarks.push_back(absl::StrFormat(
        "schedule missed: %d of %d arrivals dropped, all places in flight were "
        "taken (--in-flight)",
        result.dropped, result.planned));
  }
  if (result.waited > 0) {
    remarks.push_back(absl::StrFormat(
        "schedule missed: %d of %d calls waited for a place in flight; their "
        "latency includes it. Reached %.4g of %.4g planned per second",
        result.waited, result.planned, result.Throughput(),
        result.PlannedRate()));
  }
  return remarks;
}

}  // namespace attnd::client
