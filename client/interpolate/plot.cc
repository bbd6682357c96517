#include "client/interpolate/plot.h"

#include <algorithm>
#include <limits>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "client/interpolate/panel.h"
#include "client/plot/svg.h"

namespace attnd::client {
namespace {

// Told apart by lightness too, for eyes that do not tell all hues apart.
constexpr char kObserved[] = "#6b7785";
constexpr char kHidden[] = "#c8401f";
constexpr char kEstimate[] = "#1557b0";
constexpr char kStraight[] = "#1b8a5a";
constexpr char kHiddenShade[] = "#fdebd8";
constexpr char kMissingShade[] = "#e6e9ee";

constexpr double kWidth = 1200;
constexpr double kLeft = 84;
constexpr double kRight = 24;
// Observations above which a panel with fewer shows what one cannot.
constexpr size_t kDetailAbove = 400;
constexpr int kDetailPoints = 200;

double Distance(int64_t from, int64_t to) {
  return static_cast<double>(absl::int128(to) - from);
}

PlotStretch WholeStretch(const PlotData& data) {
  PlotStretch whole = {std::numeric_limits<int64_t>::max(),
                       std::numeric_limits<int64_t>::min()};
  for (const auto* points : {&data.observed, &data.hidden, &data.estimate}) {
    if (points->empty()) continue;
    whole.begin_ns = std::min(whole.begin_ns, points->front().time_ns);
    whole.end_ns = std::max(whole.end_ns, points->back().time_ns);
  }
  return whole;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

// Of the values inside `times`, with a margin so that none touches the frame.
Range ValueRange(const PlotData& data, const PlotStretch& times) {
  Range range;
  for (const auto* points : {&data.observed, &data.hidden, &data.estimate}) {
    for (const PlotPoint& point : *points) {
      if (point.time_ns < times.begin_ns || point.time_ns > times.end_ns) {
        continue;
      }
      range.low = std::min(range.low, point.value);
      range.high = std::max(range.high, point.value);
    }
  }
  if (range.low > range.high) range = {0, 1};
  const double margin = range.high > range.low
                            ? 0.06 * (range.high - range.low)
                            : std::max(std::abs(range.low), 1.0) * 0.01;
  return {range.low - margin, range.high + margin};
}

// Spacing beyond which a line does not claim to know what lies between.
double LineGap(const std::vector<PlotPoint>& points) {
  std::vector<double> spacing;
  for (size_t i = 1; i < points.size(); ++i) {
    spacing.push_back(Distance(points[i - 1].time_ns, points[i].time_ns));
  }
  if (spacing.empty()) return 0;
  const auto middle = spacing.begin() + spacing.size() / 2;
  std::nth_element(spacing.begin(), middle, spacing.end());
  return 4 * *middle;
}

void DrawPanel(Svg* svg, const SvgRect& frame, const PlotData& data,
               const PlotStretch& times, bool detail) {
  const Range range = ValueRange(data, times);
  Panel panel(svg, frame, times, range.low, range.high);
  panel.Shade(data.missing_stretches, kMissingShade);
  panel.Shade(data.hidden_stretches, kHiddenShade);
  panel.Axes();
  const double size = detail || data.observed.size() < kDetailAbove ? 4.5 : 2.5;
  panel.Dots(data.observed, kObserved, size);
  panel.Dots(data.hidden, kHidden, size);
  panel.Line(data.estimate, kEstimate, detail ? 2 : 1.2, "",
             LineGap(data.estimate));
  if (detail) {
    panel.Line(data.straight_line, kStraight, 1.6, "6 4",
               LineGap(data.straight_line));
  }
  svg->Text({22, frame.top + frame.height / 2}, data.value_label,
            {.anchor = "middle", .turn = -90});
}

void DrawLegend(Svg* svg, const PlotData& data, bool straight_line) {
  constexpr double kY = 76;
  double x = kLeft;
  const auto entry = [&](const char* label, auto draw) {
    draw(SvgPoint{x + 12, kY - 4});
    svg->Text({x + 30, kY}, label);
    x += 48 + 6.9 * std::char_traits<char>::length(label);
  };
  const auto dot = [&](const char* color) {
    return [svg, color](SvgPoint at) { svg->Dots({at}, color, 6); };
  };
  const auto line = [&](const char* color, const char* dash) {
    return [svg, color, dash](SvgPoint at) {
      svg->Path({{at.x - 12, at.y}, {at.x + 12, at.y}}, color, 2, dash);
    };
  };
  const auto box = [&](const char* color) {
    return [svg, color](SvgPoint at) {
      svg->Rect({at.x - 10, at.y - 7, 20, 14}, color, "#c3c9d0");
    };
  };
  entry("observed", dot(kObserved));
  entry("estimate (attention)", line(kEstimate, ""));
  if (!data.hidden.empty()) entry("observed, but hidden", dot(kHidden));
  if (straight_line) entry("straight line", line(kStraight, "6 4"));
  if (!data.hidden_stretches.empty()) entry("hidden", box(kHiddenShade));
  if (!data.missing_stretches.empty()) entry("no data", box(kMissingShade));
}

}  // namespace

PlotStretch DetailStretch(const PlotData& data, int points) {
  const PlotStretch whole = WholeStretch(data);
  const size_t all = data.observed.size() + data.hidden.size();
  const double width = Distance(whole.begin_ns, whole.end_ns) *
                       std::min(1.0, points / std::max<double>(all, 1));
  std::vector<int64_t> marks;
  for (const PlotPoint& point : data.hidden) marks.push_back(point.time_ns);
  if (marks.empty()) {
    for (const PlotStretch& s : data.missing_stretches) {
      marks.push_back(s.begin_ns);
    }
  }
  if (marks.empty()) marks.push_back(whole.begin_ns);
  // The window that begins at mark i and holds the most others, moved so that
  // its marks stand in the middle.
  size_t best = 0;
  size_t best_end = 0;
  for (size_t i = 0, end = 0; i < marks.size(); ++i) {
    while (end < marks.size() &&
           Distance(marks[i], marks[end]) <= width * 0.9) {
      ++end;
    }
    if (end - i > best_end - best) {
      best = i;
      best_end = end;
    }
  }
  const double slack = width - Distance(marks[best], marks[best_end - 1]);
  const double begin =
      std::clamp(Distance(whole.begin_ns, marks[best]) - slack / 2, 0.0,
                 Distance(whole.begin_ns, whole.end_ns) - width);
  const absl::int128 begin_ns = whole.begin_ns + absl::int128(begin);
  return {static_cast<int64_t>(begin_ns),
          static_cast<int64_t>(std::min(begin_ns + absl::int128(width),
                                        absl::int128(whole.end_ns)))};
}

std::string PlotSvg(const PlotData& data) {
  const bool detail = data.observed.size() + data.hidden.size() > kDetailAbove;
  const double height = detail ? 790 : 500;
  Svg svg(kWidth, height, data.title, data.subtitle);
  svg.Text({kLeft, 30}, data.title,
           {.size = 18, .color = "#111", .bold = true});
  svg.Text({kLeft, 52}, data.subtitle);
  DrawLegend(&svg, data, detail && !data.straight_line.empty());
  const double panel_width = kWidth - kLeft - kRight;
  DrawPanel(&svg, {kLeft, 96, panel_width, 350}, data, WholeStretch(data),
            false);
  if (detail) {
    svg.Text({kLeft, 496}, "A part of it, magnified",
             {.color = "#111", .bold = true});
    DrawPanel(&svg, {kLeft, 508, panel_width, 240}, data,
              DetailStretch(data, kDetailPoints), true);
  }
  return svg.Finish();
}

std::string PlotHtml(const PlotData& data) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
      "<meta charset=\"utf-8\">\n<title>",
      XmlText(data.title),
      "</title>\n<style>body{margin:1em auto;max-width:1200px}"
      "svg{width:100%;height:auto}</style>\n</head>\n<body>\n",
      PlotSvg(data), "</body>\n</html>\n");
}

}  // namespace attnd::client
