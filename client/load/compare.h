// Whether one load test's figures differ from another's by more than chance.
#ifndef ATTND_CLIENT_LOAD_COMPARE_H_
#define ATTND_CLIENT_LOAD_COMPARE_H_

#include <cmath>
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
    int64_t planned = 0;
    // Failed and dropped.
    int64_t errors = 0;
  };
  std::vector<Row> rows;
  // Of the whole run, as its report has them.
  double answers_per_second = 0;
  double error_share = 0;
};

// Of the JSON that `attnctl load --json` writes. InvalidArgument for other
// texts.
absl::StatusOr<ComparedRun> ParseRun(absl::string_view json);

// One figure of both runs.
struct ComparedFigure {
  const char* name;
  // Answers per second, seconds, or a share of the calls.
  double a = 0;
  double b = 0;
  // Of b / a: 95 % of resampled runs lie between; infinite where a may be 0.
  double low = 0;
  double high = 0;
  bool more_is_better = false;
  bool is_share = false;

  // 1 where both are 0, infinite where only a is.
  double ratio() const { return Ratio(a, b); }
  static double Ratio(double a, double b) {
    return a > 0 ? b / a : b > 0 ? HUGE_VAL : 1;
  }
  // The interval leaves no doubt on which side of `factor` the ratio lies.
  bool Above(double factor) const { return low > factor; }
  bool Below(double factor) const { return high < factor; }
};

// Throughput, mean, p50, p90, p99 and the share of errors. Throughput and
// errors are the reports' own, of the whole runs; latencies are of the
// stretches without the last, which is rarely a whole one. Resamples without an
// answer have no latency and are left out of its interval. Intervals come from
// the bootstrap over stretches of time (moving blocks, Kuensch 1989):
// neighbouring calls share their server's state, and counting them as
// independent would make the intervals far too narrow. Runs shorter than ten
// stretches have none that mean much.
std::vector<ComparedFigure> Compare(const ComparedRun& a, const ComparedRun& b,
                                    uint64_t seed = 1);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_COMPARE_H_
