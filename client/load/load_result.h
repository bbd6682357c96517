// What a load test found.
#ifndef ATTND_CLIENT_LOAD_LOAD_RESULT_H_
#define ATTND_CLIENT_LOAD_LOAD_RESULT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/histogram.h"
#include "client/load/timeline.h"

namespace attnd::client {

// Calls that ended with one code.
struct ErrorCount {
  int64_t count = 0;
  // Text of the first.
  std::string example;
};

// Of some measured calls: all, those of one kind of work, or of one endpoint.
struct CallFigures {
  std::string name;
  // Why there are none.
  std::string note;
  // Of the answers that were OK. Latency runs from the planned moment, service
  // time from the moment at which the (last) attempt was sent: latency is what
  // a user on a schedule waits for, service time leaves out what waited in this
  // client. In a closed loop the planned moment is the first sending.
  Histogram latency_ns = *Histogram::Create();
  Histogram service_ns = *Histogram::Create();
  int64_t ok = 0;
  int64_t failed = 0;
  std::map<absl::StatusCode, ErrorCount> errors;
  // Of the calls that were OK.
  int64_t request_bytes = 0;
  int64_t response_bytes = 0;
};

// Counts and times of the measured calls; warm-up calls are counted apart and
// enter nothing else.
struct LoadResult {
  CallFigures all;
  // By kind of work, in the order of the mix; by endpoint, as they answered.
  std::vector<CallFigures> work;
  std::vector<CallFigures> endpoints;
  Timeline timeline;

  // Arrivals of the schedule; each was started, or dropped because the cap on
  // calls in flight was reached. Equal to the calls in a closed loop.
  int64_t planned = 0;
  int64_t dropped = 0;
  // Calls that waited for a place under the cap (their latency includes it).
  int64_t waited = 0;
  // Attempts made, first ones and retries.
  int64_t attempts = 0;
  // How much later than planned calls were sent although there was a place:
  // what this client itself got wrong. Empty in a closed loop.
  Histogram lag_ns = *Histogram::Create();

  int64_t warm_up_calls = 0;
  int64_t warm_up_failed = 0;
  // Arrivals of the warm-up that found the cap reached.
  int64_t warm_up_dropped = 0;

  // From the first planned moment to the last end, and to the last planned
  // moment.
  double span_seconds = 0;
  double schedule_seconds = 0;
  // Given up by the user before its end.
  bool interrupted = false;

  // Processor time of this process, and of its busiest sending thread, over the
  // whole run, warm-up included; and that length.
  double client_cpu_seconds = 0;
  double thread_cpu_seconds = 0;
  double run_seconds = 0;

  // Answers per second of the span.
  double Throughput() const {
    return span_seconds > 0 ? static_cast<double>(all.ok) / span_seconds : 0;
  }
  // Planned calls per second of the schedule: gaps over their sum.
  double PlannedRate() const {
    return schedule_seconds > 0
               ? static_cast<double>(planned - 1) / schedule_seconds
               : 0;
  }
  // Failed and dropped of all that were planned.
  double ErrorShare() const {
    return planned > 0 ? static_cast<double>(all.failed + dropped) /
                             static_cast<double>(planned)
                       : 0;
  }
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_LOAD_RESULT_H_
