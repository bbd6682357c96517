// A frame with numbers along both axes, the lower one linear or logarithmic,
// and lines drawn in it.
#ifndef ATTND_CLIENT_PLOT_PLOT_FRAME_H_
#define ATTND_CLIENT_PLOT_PLOT_FRAME_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/plot/chart.h"
#include "client/plot/svg.h"

namespace attnd::client {

struct PlotAxis {
  double low = 0;
  double high = 1;  // > low
  // Equal factors take equal lengths; low > 0.
  bool logarithmic = false;
  // Runs against its direction: a vertical one from the top down.
  bool reversed = false;
  // Counts things: numbers stand at whole ones only.
  bool whole = false;

  // low .. high as 0 .. 1.
  double Share(double value) const;
  double At(double share) const;
};

class PlotFrame {
 public:
  // `frame` leaves room for the axes' texts on its left and below. `svg` must
  // outlive the chart.
  PlotFrame(Svg* svg, const SvgRect& frame, const PlotAxis& x,
            const PlotAxis& y)
      : svg_(svg), frame_(frame), x_(x), y_(y) {}

  void Axes(absl::string_view x_label, absl::string_view y_label);
  void Title(absl::string_view title);
  // Cut off at the frame. Points from left to right.
  void Line(absl::Span<const ChartPoint> points, absl::string_view color,
            double width, absl::string_view dash = "");

 private:
  SvgPoint Place(const ChartPoint& point) const;

  Svg* svg_;
  SvgRect frame_;
  PlotAxis x_, y_;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_PLOT_PLOT_FRAME_H_
