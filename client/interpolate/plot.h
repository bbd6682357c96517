// A picture of an interpolated series.
#ifndef ATTND_CLIENT_INTERPOLATE_PLOT_H_
#define ATTND_CLIENT_INTERPOLATE_PLOT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace attnd::client {

struct PlotPoint {
  int64_t time_ns;
  double value;  // finite
};

// A stretch of time, ends included.
struct PlotStretch {
  int64_t begin_ns;
  int64_t end_ns;
};

// Every list is sorted by time; `observed` or `estimate` is not empty.
struct PlotData {
  std::string title;
  std::string subtitle;
  // What the values are, with their unit.
  std::string value_label;
  std::vector<PlotPoint> observed;
  // Observations that were hidden from the estimate.
  std::vector<PlotPoint> hidden;
  std::vector<PlotPoint> estimate;
  // Straight lines across the hidden stretches, to compare with.
  std::vector<PlotPoint> straight_line;
  std::vector<PlotStretch> hidden_stretches;
  std::vector<PlotStretch> missing_stretches;
};

// Axes with dates, observations as dots, the estimate as a line, hidden and
// missing stretches shaded, a legend; when the series is long, a second panel
// magnifies the part with the most hidden observations. Self-contained: no
// script, font or link from outside. Its size is bounded whatever the number of
// points: what falls on the same pixels is drawn once.
std::string PlotSvg(const PlotData& data);

// The same in a page of its own.
std::string PlotHtml(const PlotData& data);

// The stretch that the second panel shows: as wide as `points` of all
// observations on average, with as many hidden ones as possible; the first of
// equals. Without hidden ones it shows the missing stretches alike.
PlotStretch DetailStretch(const PlotData& data, int points);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_PLOT_H_
