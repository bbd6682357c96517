// One coordinate system of a plot: a frame, its axes, and what is drawn in it.
#ifndef ATTND_CLIENT_INTERPOLATE_PANEL_H_
#define ATTND_CLIENT_INTERPOLATE_PANEL_H_

#include "absl/types/span.h"
#include "client/interpolate/plot.h"
#include "client/plot/svg.h"

namespace attnd::client {

class Panel {
 public:
  // Shows `times` and the values low .. high inside `frame`, which leaves room
  // for the axes' texts on its left and below. `svg` must outlive the panel.
  Panel(Svg* svg, const SvgRect& frame, const PlotStretch& times, double low,
        double high);

  // Behind everything: shaded stretches, then marks and texts of the axes.
  void Shade(absl::Span<const PlotStretch> stretches, absl::string_view color);
  void Axes();
  // A line; broken where two neighbours are further apart than `gap_ns`.
  void Line(absl::Span<const PlotPoint> points, absl::string_view color,
            double width, absl::string_view dash, double gap_ns);
  void Dots(absl::Span<const PlotPoint> points, absl::string_view color,
            double diameter);

 private:
  double X(int64_t time_ns) const;
  SvgPoint Place(const PlotPoint& point) const;
  // Those in the panel's times, and one on each side, to which a line leads.
  absl::Span<const PlotPoint> Within(absl::Span<const PlotPoint> points) const;

  Svg* svg_;
  SvgRect frame_;
  PlotStretch times_;
  double low_;
  double high_;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_PANEL_H_
