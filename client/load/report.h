// A load test's result as text and as JSON.
#ifndef ATTND_CLIENT_LOAD_REPORT_H_
#define ATTND_CLIENT_LOAD_REPORT_H_

#include <string>

#include "client/load/load_result.h"

namespace attnd::client {

// What was run, for the head of a report.
struct LoadSetting {
  std::string target = {};
  std::string work = {};
  int in_flight = 1;
  int connections = 1;
  double warm_up_seconds = 0;
  uint64_t seed = 0;
  int64_t request_bytes = 0;
};

// Why the figures must not be used; empty when they may.
std::string Invalidity(const LoadResult& result);

// A few lines for a terminal.
std::string ReportText(const LoadSetting& setting, const LoadResult& result);

// One object; seconds, bytes and counts, all under names that say so. Schema
// "attnctl.load/1": fields are added, never renamed.
std::string ReportJson(const LoadSetting& setting, const LoadResult& result);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_REPORT_H_
