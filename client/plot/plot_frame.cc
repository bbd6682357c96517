#include "client/plot/plot_frame.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/plot/value_ticks.h"

namespace attnd::client {
namespace {

constexpr char kGrid[] = "#e3e6ea";
constexpr char kFrame[] = "#9aa3ad";
constexpr int kMostXTicks = 9;

// Powers of ten, thinned to few.
std::vector<ValueTick> DecadeTicks(const PlotAxis& axis) {
  const int first = static_cast<int>(std::ceil(std::log10(axis.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(axis.high) + 1e-9));
  const int step = std::max(1, (last - first) / kMostXTicks + 1);
  std::vector<ValueTick> ticks;
  for (int e = first; e <= last; e += step) {
    const double value = std::pow(10.0, e);
    ticks.push_back({value, absl::StrFormat("%g", value)});
  }
  return ticks;
}

std::vector<ValueTick> TicksOf(const PlotAxis& axis, int most) {
  if (axis.logarithmic && axis.high / axis.low >= 100) return DecadeTicks(axis);
  if (axis.whole) {
    most =
        std::min(most, static_cast<int>(std::max(1.0, axis.high - axis.low)));
  }
  return ValueTicks(axis.low, axis.high, most);
}

}  // namespace

double PlotAxis::Share(double value) const {
  const double share = logarithmic
                           ? std::log(value / low) / std::log(high / low)
                           : (value - low) / (high - low);
  return reversed ? 1 - share : share;
}

double PlotAxis::At(double share) const {
  if (reversed) share = 1 - share;
  if (!logarithmic) return low + share * (high - low);
  return low * std::pow(high / low, share);
}

SvgPoint PlotFrame::Place(const ChartPoint& point) const {
  // Far outside is outside all the same, and short to write.
  const double y = std::clamp(y_.Share(point.y), -1.0, 2.0);
  return {frame_.left + frame_.width * x_.Share(point.x),
          frame_.bottom() - frame_.height * y};
}

void PlotFrame::Axes(absl::string_view x_label, absl::string_view y_label) {
  for (const ValueTick& tick : TicksOf(y_, 6)) {
    const double y = Place({x_.low, tick.value}).y;
    svg_->Line({frame_.left, y}, {frame_.right(), y}, kGrid);
    svg_->Text({frame_.left - 8, y + 4}, tick.label, {.anchor = "end"});
  }
  for (const ValueTick& tick : TicksOf(x_, kMostXTicks)) {
    const double x = Place({tick.value, y_.low}).x;
    svg_->Line({x, frame_.top}, {x, frame_.bottom()}, kGrid);
    svg_->Line({x, frame_.bottom()}, {x, frame_.bottom() + 5}, kFrame);
    svg_->Text({x, frame_.bottom() + 20}, tick.label, {.anchor = "middle"});
  }
  svg_->Rect(frame_, "none", kFrame);
  svg_->Text({frame_.left + frame_.width / 2, frame_.bottom() + 40}, x_label,
             {.anchor = "middle"});
  svg_->Text({frame_.left - 58, frame_.top + frame_.height / 2}, y_label,
             {.anchor = "middle", .turn = -90});
}

void PlotFrame::Title(absl::string_view title) {
  svg_->Text({frame_.left, frame_.top - 12}, title, {.size = 14, .bold = true});
}

void PlotFrame::Line(absl::Span<const ChartPoint> points,
                     absl::string_view color, double width,
                     absl::string_view dash) {
  std::vector<SvgPoint> places;
  for (const ChartPoint& point : points) places.push_back(Place(point));
  svg_->BeginClip(frame_);
  svg_->Path(places, color, width, dash);
  svg_->EndClip();
}

}  // namespace attnd::client
