// The handles behind Metrics: every series, made once.
#ifndef ATTND_SERVER_METRICS_SERIES_H_
#define ATTND_SERVER_METRICS_SERIES_H_

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/labels.h>
#include <prometheus/registry.h>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "server/metrics.h"

namespace attnd::server {

// grpc::StatusCode counts from 0 to 16.
inline constexpr int kCodes = 17;

struct Metrics::Series {
  using Counter = prometheus::Counter;
  using Gauge = prometheus::Gauge;
  using Histogram = prometheus::Histogram;

  explicit Series(const MetricsInfo& info);

  prometheus::Registry registry;

  struct Call {
    Counter* started;
    Counter* received;
    Counter* sent;
    std::array<Counter*, kCodes> handled;
    Histogram* seconds;
  };
  std::array<Call, kMethods> calls;

  struct Encoding {
    std::array<Histogram*, 2> request_seconds;  // Attend, AttendStream
    Counter* flops;
    Gauge* cost_factor;
  };
  std::map<std::string, Encoding, std::less<>> encodings;

  std::map<Reason, Counter*> rejected;
  std::array<Histogram*, kStages> stages;
  std::array<Counter*, 2> expired, cancelled;
  std::array<Counter*, 3> shadow_checks;
  std::map<int, Counter*> offered;  // by tenant
  Counter *admitted, *query_rows, *reloads_ok, *reloads_failed, *tls_reloads_ok,
      *tls_reloads_failed;
  // Guards the two maps above: encodings and tenants come with reloads.
  std::shared_mutex labels_mutex;

  Gauge *ready, *drain, *generation, *workers_busy, *waiting, *running,
      *inflight, *streams, *receive_bytes, *connections, *limit_seconds,
      *limit_bytes, *limit_requests, *queue_seconds, *queue_bytes, *cost_ratio,
      *encoders;
  Counter *connections_refused, *busy_seconds, *cpu_seconds, *throttled_seconds,
      *throttled_periods, *minor_faults;
  Gauge *resident, *virtual_memory, *open_files, *max_files, *threads,
      *start_time, *cgroup_memory;

  // Guards the refresh of the gauges above against a second scrape.
  std::mutex text_mutex;
  std::atomic<double> ratio{1};

  void Refresh(const MetricsReadings& readings);
  void AddLabels(const std::vector<std::string>& encodings,
                 absl::Span<const Tenant> tenants);

 private:
  Counter& MakeCounter(const std::string& name, const std::string& help,
                       const prometheus::Labels& labels = {});
  Gauge& MakeGauge(const std::string& name, const std::string& help,
                   const prometheus::Labels& labels = {});
  Histogram& MakeHistogram(const std::string& name, const std::string& help,
                           const prometheus::Labels& labels);
  void MakeCalls();
  void MakeRequests(const MetricsInfo& info);
  void MakeQueue();
  void MakeServer(const MetricsInfo& info);
  void MakeProcess(const MetricsInfo& info);
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_METRICS_SERIES_H_
