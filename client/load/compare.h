// Whether one load test's figures differ from another's by more than chance.
#ifndef ATTND_CLIENT_LOAD_COMPARE_H_
#define ATTND_CLIENT_LOAD_COMPARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/histogram.h"

namespace attnd::client {

// What a comparison wants of a result file.
struct ComparedRun {
  std::string mode;
  std::string work;
  bool valid = false;
  // Answers and latencies of each stretch of the run, in order.
  double row_seconds = 0;
  struct Row {
    int64_t ok = 0;
    Histogram latency_ns;
  };
  std::vector<Row> rows;
};

// Of the JSON that `attnctl load --json` writes. InvalidArgument for other
// texts.
absl::StatusOr<ComparedRun> ParseRun(absl::string_view json);

// One figure of both runs.
struct ComparedFigure {
  const char* name;
  // Answers per second, or seconds.
  double a = 0;
  double b = 0;
  // Of b / a: 95 % of resampled runs lie between.
  double low = 0;
  double high = 0;
  bool more_is_better = false;

  double ratio() const { return a > 0 ? b / a : 0; }
  // The interval leaves no doubt on which side of `factor` the ratio lies.
  bool Above(double factor) const { return low > factor; }
  bool Below(double factor) const { return high < factor; }
};

// Throughput, mean, p50, p90 and p99. Intervals come from the bootstrap over
// stretches of time (moving blocks, Kuensch 1989): neighbouring calls share
// their server's state, and counting them as independent would make the
// intervals far too narrow. Runs shorter than ten stretches have none that mean
// much.
std::vector<ComparedFigure> Compare(const ComparedRun& a, const ComparedRun& b,
                                    uint64_t seed = 1);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_COMPARE_H_
