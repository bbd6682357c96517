#include "client/plot/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "client/plot/svg.h"
#include "client/plot/value_ticks.h"

namespace attnd::client {
namespace {

constexpr double kLeft = 84;
constexpr double kRight = 24;
constexpr double kTop = 54;
constexpr double kBottom = 48;
constexpr char kGrid[] = "#e3e6ea";
constexpr char kFrame[] = "#9aa3ad";

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

class Drawing {
 public:
  Drawing(const Chart& chart, const std::string& name)
      : chart_(chart),
        svg_(chart.width, chart.height, chart.title, chart.y_label, name),
        frame_{kLeft, kTop, chart.width - kLeft - kRight,
               chart.height - kTop - kBottom} {}

  std::string Draw() {
    svg_.Text({kLeft, 22}, chart_.title,
              {.size = 15, .color = "#111", .bold = true});
    if (!FindRanges()) {
      svg_.Rect(frame_, "none", kFrame);
      svg_.Text({kLeft + 12, kTop + 24}, "nothing to show");
      return svg_.Finish();
    }
    XAxis();
    YAxis();
    svg_.Rect(frame_, "none", kFrame);
    svg_.BeginClip(frame_);
    for (const ChartMark& bound : chart_.bounds) {
      const double y = Y(bound.x);
      svg_.Path({{frame_.left, y}, {frame_.right(), y}}, "#999", 1, "2 4");
      svg_.Text({frame_.right() - 6, y - 4}, bound.label, {.anchor = "end"});
    }
    for (const ChartLine& line : chart_.lines) DrawLine(line);
    svg_.EndClip();
    Legend();
    return svg_.Finish();
  }

 private:
  bool Shown(const ChartPoint& point) const {
    return std::isfinite(point.x) && std::isfinite(point.y) &&
           (!chart_.log_y || point.y > 0);
  }
  double Scaled(double y) const { return chart_.log_y ? std::log10(y) : y; }
  double X(double x) const {
    return frame_.left + frame_.width * (x - x_.low) / (x_.high - x_.low);
  }
  double Y(double y) const {
    return frame_.bottom() -
           frame_.height * (Scaled(y) - y_.low) / (y_.high - y_.low);
  }

  // Of what is shown, the y range scaled and with a margin.
  bool FindRanges() {
    for (const ChartLine& line : chart_.lines) {
      for (const ChartPoint& point : line.points) {
        if (!Shown(point)) continue;
        x_.Add(point.x);
        y_.Add(Scaled(point.y));
      }
    }
    if (x_.low > x_.high) return false;
    for (const ChartMark& bound : chart_.bounds) y_.Add(Scaled(bound.x));
    if (!chart_.log_y) y_.Add(0);
    if (x_.low == x_.high) x_.high = x_.low + 1;
    const double margin = y_.high > y_.low
                              ? 0.06 * (y_.high - y_.low)
                              : std::max(std::abs(y_.low), 1.0) * 0.1;
    y_.high += margin;
    if (chart_.log_y) y_.low -= margin;
    return true;
  }

  void XAxis() {
    std::vector<ChartMark> marks = chart_.x_marks;
    if (marks.empty()) {
      for (const ValueTick& tick : ValueTicks(x_.low, x_.high, 12)) {
        marks.push_back({tick.value, tick.label});
      }
    }
    for (const ChartMark& mark : marks) {
      if (mark.x < x_.low || mark.x > x_.high) continue;
      const double x = X(mark.x);
      svg_.Line({x, frame_.top}, {x, frame_.bottom()}, kGrid);
      svg_.Text({x, frame_.bottom() + 18}, mark.label, {.anchor = "middle"});
    }
    svg_.Text({frame_.left + frame_.width / 2, frame_.bottom() + 38},
              chart_.x_label, {.anchor = "middle"});
  }

  void YMark(double value, const std::string& label) {
    const double y = Y(value);
    svg_.Line({frame_.left, y}, {frame_.right(), y}, kGrid);
    svg_.Text({frame_.left - 8, y + 4}, label, {.anchor = "end"});
  }

  void YAxis() {
    if (chart_.log_y) {
      // All of 1, 2 and 5 where decades are few.
      const bool fine = y_.high - y_.low < 3;
      for (double decade = std::floor(y_.low); decade <= y_.high; ++decade) {
        for (double times : {1.0, 2.0, 5.0}) {
          const double value = times * std::pow(10, decade);
          if (std::log10(value) < y_.low || std::log10(value) > y_.high) {
            continue;
          }
          if (times == 1 || fine) YMark(value, absl::StrFormat("%g", value));
        }
      }
    } else {
      for (const ValueTick& tick : ValueTicks(y_.low, y_.high, 6)) {
        YMark(tick.value, tick.label);
      }
    }
    svg_.Text({22, frame_.top + frame_.height / 2}, chart_.y_label,
              {.anchor = "middle", .turn = -90});
  }

  void DrawLine(const ChartLine& line) {
    std::vector<SvgPoint> run;
    std::vector<SvgPoint> all;
    const auto end_run = [&] {
      if (run.size() == 1) all.push_back(run[0]);  // a path of one is unseen
      svg_.Path(run, line.color, 1.8, line.dash);
      run.clear();
    };
    for (const ChartPoint& point : line.points) {
      if (!Shown(point)) {
        end_run();
        continue;
      }
      run.push_back({X(point.x), Y(point.y)});
      if (line.dots) all.push_back(run.back());
    }
    end_run();
    svg_.Dots(all, line.color, 6);
  }

  void Legend() {
    double x = kLeft;
    for (const ChartLine& line : chart_.lines) {
      svg_.Path({{x, 40}, {x + 24, 40}}, line.color, 2.5, line.dash);
      svg_.Text({x + 30, 44}, line.label);
      x += 52 + 7.0 * static_cast<double>(line.label.size());
    }
  }

  const Chart& chart_;
  Svg svg_;
  SvgRect frame_;
  Range x_;
  Range y_;
};

}  // namespace

std::string ChartSvg(const Chart& chart, const std::string& name) {
  return Drawing(chart, name).Draw();
}

}  // namespace attnd::client
