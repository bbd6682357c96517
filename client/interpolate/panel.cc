#include "client/interpolate/panel.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "client/interpolate/time_ticks.h"
#include "client/plot/value_ticks.h"

namespace attnd::client {
namespace {

constexpr char kGrid[] = "#e3e6ea";
constexpr char kFrame[] = "#9aa3ad";

// Of the points on one half pixel column a line needs the first, the extremes
// and the last: the others lie on the same pixels.
std::vector<SvgPoint> Thin(const std::vector<SvgPoint>& points) {
  std::vector<SvgPoint> result;
  for (size_t begin = 0; begin < points.size();) {
    const double column = std::floor(points[begin].x * 2);
    size_t end = begin;
    size_t low = begin;
    size_t high = begin;
    for (; end < points.size() && std::floor(points[end].x * 2) == column;
         ++end) {
      if (points[end].y < points[low].y) low = end;
      if (points[end].y > points[high].y) high = end;
    }
    for (size_t i : std::set<size_t>{begin, low, high, end - 1}) {
      result.push_back(points[i]);
    }
    begin = end;
  }
  return result;
}

}  // namespace

Panel::Panel(Svg* svg, const SvgRect& frame, const PlotStretch& times,
             double low, double high)
    : svg_(svg), frame_(frame), times_(times), low_(low), high_(high) {}

double Panel::X(int64_t time_ns) const {
  const absl::int128 begin = times_.begin_ns;
  const double span =
      std::max(static_cast<double>(absl::int128(times_.end_ns) - begin), 1.0);
  return frame_.left +
         frame_.width *
             (static_cast<double>(absl::int128(time_ns) - begin) / span);
}

SvgPoint Panel::Place(const PlotPoint& point) const {
  return {
      X(point.time_ns),
      frame_.bottom() - frame_.height * (point.value - low_) / (high_ - low_)};
}

absl::Span<const PlotPoint> Panel::Within(
    absl::Span<const PlotPoint> points) const {
  const auto first = std::lower_bound(
      points.begin(), points.end(), times_.begin_ns,
      [](const PlotPoint& p, int64_t ns) { return p.time_ns < ns; });
  const auto last = std::upper_bound(
      first, points.end(), times_.end_ns,
      [](int64_t ns, const PlotPoint& p) { return ns < p.time_ns; });
  const size_t begin = first - points.begin() - (first != points.begin());
  const size_t end = last - points.begin() + (last != points.end());
  return points.subspan(begin, end - begin);
}

void Panel::Shade(absl::Span<const PlotStretch> stretches,
                  absl::string_view color) {
  svg_->BeginClip(frame_);
  for (const PlotStretch& stretch : stretches) {
    if (stretch.end_ns < times_.begin_ns || stretch.begin_ns > times_.end_ns) {
      continue;
    }
    const double left = X(stretch.begin_ns);
    // Even a short stretch of a long series must be seen.
    const double width = std::max(X(stretch.end_ns) - left, 1.0);
    svg_->Rect({left, frame_.top, width, frame_.height}, color);
  }
  svg_->EndClip();
}

void Panel::Axes() {
  for (const ValueTick& tick : ValueTicks(low_, high_, 7)) {
    const double y = Place({times_.begin_ns, tick.value}).y;
    svg_->Line({frame_.left, y}, {frame_.right(), y}, kGrid);
    svg_->Text({frame_.left - 8, y + 4}, tick.label, {.anchor = "end"});
  }
  for (const TimeTick& tick : TimeTicks(times_.begin_ns, times_.end_ns, 11)) {
    const double x = X(tick.time_ns);
    svg_->Line({x, frame_.top}, {x, frame_.bottom()}, kGrid);
    svg_->Line({x, frame_.bottom()}, {x, frame_.bottom() + 5}, kFrame);
    svg_->Text({x, frame_.bottom() + 20}, tick.label, {.anchor = "middle"});
  }
  svg_->Rect(frame_, "none", kFrame);
}

void Panel::Line(absl::Span<const PlotPoint> points, absl::string_view color,
                 double width, absl::string_view dash, double gap_ns) {
  svg_->BeginClip(frame_);
  points = Within(points);
  std::vector<SvgPoint> run;
  for (size_t i = 0; i < points.size(); ++i) {
    run.push_back(Place(points[i]));
    const bool last = i + 1 == points.size();
    if (last || static_cast<double>(absl::int128(points[i + 1].time_ns) -
                                    points[i].time_ns) > gap_ns) {
      svg_->Path(Thin(run), color, width, dash);
      run.clear();
    }
  }
  svg_->EndClip();
}

void Panel::Dots(absl::Span<const PlotPoint> points, absl::string_view color,
                 double diameter) {
  svg_->BeginClip(frame_);
  // One dot for all whose middles lie within half a diameter: a million points
  // must not become a million shapes.
  const double cell = diameter / 2;
  std::set<std::pair<int64_t, int64_t>> taken;
  std::vector<SvgPoint> dots;
  for (const PlotPoint& point : Within(points)) {
    const SvgPoint place = Place(point);
    if (taken
            .insert(
                {std::llround(place.x / cell), std::llround(place.y / cell)})
            .second) {
      dots.push_back(place);
    }
  }
  svg_->Dots(dots, color, diameter);
  svg_->EndClip();
}

}  // namespace attnd::client
