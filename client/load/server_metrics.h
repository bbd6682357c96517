// What a server says of itself before, during and after a load test.
#ifndef ATTND_CLIENT_LOAD_SERVER_METRICS_H_
#define ATTND_CLIENT_LOAD_SERVER_METRICS_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

// Values by name, summed over labels; metrics with a label `stage` or
// `tenant_class` also by it: name{stage="queue"}.
using MetricValues = std::map<std::string, double>;

// Reads Prometheus' text format. Lines that are none of it are passed over:
// another exporter's peculiarity must not lose a run.
MetricValues ParseMetrics(absl::string_view text);

struct MetricSample {
  // Since the first scrape.
  double seconds = 0;
  MetricValues values = {};
};

// Of one address. The first sample is from before the run and the last from
// after it.
struct ServerMetrics {
  std::string url = {};
  std::vector<MetricSample> samples = {};
  int failed_scrapes = 0;

  // Last less first of a counter; 0 when it is unknown.
  double Difference(const std::string& name) const;
  double Largest(const std::string& name) const;
  bool Has(const std::string& name) const;
  // The difference of a counter for each value of a label that is kept.
  std::map<std::string, double> DifferenceBy(const std::string& name,
                                             const std::string& label) const;
};

// Worker seconds that a server counted as offered by each tenant that offered
// any; empty where it knows no tenants but "default".
std::map<std::string, double> OfferedByTenant(const ServerMetrics& server);

// Samples that a run of any length keeps: more than a plot has pixels.
inline constexpr size_t kMaxSamples = 2000;
// At kMaxSamples drops every second one, but neither the first nor the last.
void ThinSamples(std::vector<MetricSample>* samples);

// Scrapes in a thread of its own, once a second and when it is started and
// stopped.
class MetricsScraper {
 public:
  // InvalidArgument or Unavailable when the first scrape fails.
  static absl::StatusOr<std::unique_ptr<MetricsScraper>> Start(
      const std::string& url);
  ~MetricsScraper();

  // Scrapes for the last time and stops.
  ServerMetrics Stop();

 private:
  explicit MetricsScraper(const std::string& url);
  absl::Status Scrape();
  void Run();

  ServerMetrics metrics_;
  double begin_seconds_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_SERVER_METRICS_H_
