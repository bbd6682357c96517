// The charts of a report, each as an element <svg>.
#ifndef ATTND_CLIENT_LOAD_REPORT_CHARTS_H_
#define ATTND_CLIENT_LOAD_REPORT_CHARTS_H_

#include <string>
#include <vector>

#include "client/load/load_report.h"
#include "client/load/server_metrics.h"

namespace attnd::client {

// Over the time of the measured part.
std::string LatencyChart(const LoadReport& report);
std::string RateChart(const LoadReport& report);
// "" where none failed or was dropped.
std::string ErrorChart(const LoadReport& report);

// Latency and service time over the share of answers that took no longer.
std::string PercentileChart(const LoadReport& report);

// Latency over the planned rate; trials by rising rate.
std::string KneeChart(const std::vector<Trial>& trials);

// Load, queue and memory between scrapes. `name`, letters only, keeps their ids
// apart from those of other servers.
std::string ServerCharts(const ServerMetrics& server, const std::string& name);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_REPORT_CHARTS_H_
