// What `attnctl interpolate` hands over: a CSV file, a plot, a verdict.
#ifndef ATTND_CLIENT_INTERPOLATE_RESULT_H_
#define ATTND_CLIENT_INTERPOLATE_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/interpolate/plot.h"
#include "client/interpolate/series.h"
#include "client/interpolate/split.h"
#include "client/interpolate/time_text.h"

namespace attnd::client {

// Estimates at distinct times, sorted; NaN = none.
struct Estimates {
  std::vector<int64_t> time_ns;
  std::vector<double> value;

  // The value at a time that is one of them.
  double At(int64_t ns) const;
};

// One line per wanted time (sorted, distinct, each among the estimates):
// time,estimate,observed,state. `observed` is the mean of the rows at that
// time, `state` one of observed, hidden, missing, or nothing where there is no
// row.
std::string ResultCsv(const Series& series, const Split& split,
                      const Estimates& estimates,
                      absl::Span<const int64_t> wanted_ns,
                      const TimeFormat& format);

// Root-mean-square errors over the hidden observations.
struct Verdict {
  double attention = 0;
  double straight_line = 0;
};
Verdict Judge(const Split& split, const Estimates& estimates);

// "held-out rmse: attention 0.405 ppm, straight line 0.831 ppm, plot a.svg".
std::string VerdictText(const Verdict& verdict, const std::string& unit,
                        const std::string& plot_path);

// Stretches with no value: runs of rows that miss theirs, and spaces between
// rows of more than 1.5 times the usual spacing (the median).
std::vector<PlotStretch> MissingStretches(const Series& series);

// Everything the plot shows but its titles.
PlotData MakePlotData(const Series& series, const Split& split,
                      const Estimates& estimates);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_RESULT_H_
