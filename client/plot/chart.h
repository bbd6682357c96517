// A chart of lines over numbers: axes, marks, a legend.
#ifndef ATTND_CLIENT_PLOT_CHART_H_
#define ATTND_CLIENT_PLOT_CHART_H_

#include <string>
#include <vector>

namespace attnd::client {

struct ChartPoint {
  double x;
  // NaN breaks the line.
  double y;
};

struct ChartLine {
  std::string label = {};
  std::string color = {};
  std::vector<ChartPoint> points = {};
  // As in stroke-dasharray; empty = solid.
  std::string dash = {};
  // Also a dot at every point.
  bool dots = false;
};

// A mark on the x axis with a text of its own.
struct ChartMark {
  double x;
  std::string label;
};

struct Chart {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::vector<ChartLine> lines = {};
  // Empty = round numbers.
  std::vector<ChartMark> x_marks = {};
  // Values above 0 on a logarithmic scale; others are left out.
  bool log_y = false;
  // Horizontal lines across, with their texts: bounds.
  std::vector<ChartMark> bounds = {};
  double width = 1160;
  double height = 300;
};

// Colours that stay apart for eyes that see fewer of them (Okabe and Ito 2008).
inline constexpr const char* kChartColors[] = {"#0072b2", "#d55e00", "#009e73",
                                               "#cc79a7", "#e69f00"};

// An SVG element. `name` tells the drawings of a page apart, letters only. A
// chart without a finite point says so.
std::string ChartSvg(const Chart& chart, const std::string& name);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_PLOT_CHART_H_
