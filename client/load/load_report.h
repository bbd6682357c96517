// All that a load test has to say, and the forms in which it is said.
#ifndef ATTND_CLIENT_LOAD_LOAD_REPORT_H_
#define ATTND_CLIENT_LOAD_LOAD_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/load/arrivals.h"
#include "client/load/load_result.h"
#include "client/load/server_metrics.h"
#include "client/load/slo.h"
#include "client/load/verification.h"

namespace attnd::client {

// What was run.
struct LoadSetting {
  std::string target = {};
  // "closed loop", "open loop, 100/s, Poisson arrivals".
  std::string mode = {};
  std::string transport = "unary";
  std::vector<std::string> work = {};
  int in_flight = 1;
  int connections = 1;
  int max_attempts = 1;
  double warm_up_seconds = 0;
  double timeout_seconds = 60;
  uint64_t seed = 0;
  // Mean over the requests.
  int64_t request_bytes = 0;
  // When the schedule started, seconds since 1970.
  double start_epoch_seconds = 0;
  std::string client_version = {};
};

// One run of a search.
struct Trial {
  double rate = 0;
  double reached = 0;
  int64_t p50_ns = 0;
  int64_t p99_ns = 0;
  double error_share = 0;
  // Levels met, no growing queue, client fast enough.
  bool sustained = false;
  // Why not.
  std::string reason = {};
};

struct LoadReport {
  LoadSetting setting = {};
  LoadResult result = {};
  // The schedule, for the planned rate over time; absent for a closed loop.
  std::optional<Arrivals> arrivals = std::nullopt;
  std::vector<SloCheck> slo = {};
  // Absent unless asked for.
  std::optional<Verification> verification = std::nullopt;
  std::vector<ServerMetrics> servers = {};
  // Of a search, in the order in which they ran; `result` is the run at the
  // rate found, or the last.
  bool searched = false;
  std::vector<Trial> trials = {};
  std::optional<double> found_rate = std::nullopt;
  // See self_check.h.
  std::vector<std::string> invalid = {};
  std::vector<std::string> remarks = {};
};

// Percentiles that every form shows.
struct NamedPercentile {
  const char* name;
  double percent;
};
inline constexpr NamedPercentile kPercentiles[] = {
    {"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}};

// CPU time of this client for each attempt of the run, seconds.
double CpuPerAttempt(const LoadResult& result);

// Amount per second of the span.
double PerSecond(int64_t amount, const LoadResult& result);

// "92.57", "10530": a rate per second in four digits or more, never with an
// exponent.
std::string RateText(double per_second);

// "1.53 MiB".
std::string BytesText(double bytes);

// A table for a terminal.
std::string ReportText(const LoadReport& report);

// One object; seconds, bytes and counts, all under names that say so. Schema
// "attnctl.load/1": fields are added, never renamed.
std::string ReportJson(const LoadReport& report);

// A header and a row for each stretch of the measured part.
std::string ReportCsv(const LoadReport& report);

// Test cases: validity, each service level, verification.
std::string ReportJunit(const LoadReport& report);

// A page with plots that needs nothing but itself.
std::string ReportHtml(const LoadReport& report);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_LOAD_REPORT_H_
