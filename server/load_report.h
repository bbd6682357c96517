// How loaded this server is, as an ORCA report in the trailer of a call: the
// balancer of a client (weighted_round_robin) sends less to the busier replica.
#ifndef ATTND_SERVER_LOAD_REPORT_H_
#define ATTND_SERVER_LOAD_REPORT_H_

#include <mutex>
#include <string>

#include "server/executor.h"
#include "server/time_source.h"

namespace attnd::server {

// The trailer's key; its value is a serialized xds.data.orca.v3.OrcaLoadReport.
inline constexpr char kLoadReportKey[] = "endpoint-load-metrics-bin";

// Thread-safe.
class LoadReport {
 public:
  // Borrowed; must outlive this.
  LoadReport(const Executor& executor, int workers)
      : executor_(executor), workers_(workers) {}

  // Counts the end of a call and gives its report: utilization of the workers
  // (above 1 when work waits), calls and errors per second over about the last
  // second, and `worker_seconds` as the cost of this call.
  std::string CallEnded(bool ok, double worker_seconds, Instant now);

 private:
  void Refresh(Instant now);

  const Executor& executor_;
  const int workers_;
  std::mutex mutex_;  // guards all below
  Instant since_ = {};
  double busy_seconds_ = 0;         // when the period began
  int64_t calls_ = 0, errors_ = 0;  // in the period
  double utilization_ = 0, calls_per_second_ = 0, errors_per_second_ = 0;
  std::string period_report_;  // the part that is the same for all calls
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_LOAD_REPORT_H_
