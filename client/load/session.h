// A load test from its plan to its report.
#ifndef ATTND_CLIENT_LOAD_SESSION_H_
#define ATTND_CLIENT_LOAD_SESSION_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "client/load/live_line.h"
#include "client/load/load_options.h"
#include "client/load/load_report.h"

namespace attnd::client {

struct SessionOptions {
  ClientOptions client = {};
  // As typed, for the report.
  std::string target = {};
  LoadArguments arguments = {};
  // Says on a terminal what goes on; nullptr = none.
  LiveLine* live = nullptr;
  // Takes what must be said also where there is no live line.
  std::function<void(const std::string&)> tell = nullptr;
  // Set, it ends the run.
  const std::atomic<bool>* stop = nullptr;
};

// Connects, runs (once, or as often as a search wants), scrapes, verifies.
// InvalidArgument when an argument was wrong after all (a metrics address);
// otherwise an error means that there was no run.
absl::StatusOr<LoadReport> RunSession(const SessionOptions& options,
                                      LoadPlan plan);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_SESSION_H_
