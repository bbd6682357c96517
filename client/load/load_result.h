// What a load test found.
#ifndef ATTND_CLIENT_LOAD_LOAD_RESULT_H_
#define ATTND_CLIENT_LOAD_LOAD_RESULT_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/histogram.h"

namespace attnd::client {

// Calls that ended with one code.
struct ErrorCount {
  int64_t count = 0;
  // Text of the first.
  std::string example;
};

// Counts and times of the measured calls; warm-up calls are counted apart and
// enter nothing else.
struct LoadResult {
  Histogram latency_ns = *Histogram::Create();
  int64_t ok = 0;
  int64_t failed = 0;
  std::map<absl::StatusCode, ErrorCount> errors;
  int64_t request_bytes = 0;
  int64_t response_bytes = 0;
  int64_t warm_up_calls = 0;
  // From the start of the first measured call to the end of the last.
  double span_seconds = 0;
  // Processor time of this process over the span.
  double client_cpu_seconds = 0;

  // Answers per second of the span.
  double Throughput() const {
    return span_seconds > 0 ? static_cast<double>(ok) / span_seconds : 0;
  }
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_LOAD_RESULT_H_
