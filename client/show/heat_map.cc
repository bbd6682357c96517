#include "client/show/heat_map.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "client/plot/plot_frame.h"
#include "client/resolved/absolute.h"

namespace attnd::client {
namespace {

constexpr int kColumns = 160;
// Steps on each side of 0.
constexpr int kLevels = 8;

// Blue below 0, white, red above; `level` -kLevels .. kLevels.
std::string ColorOf(int level) {
  const double share = static_cast<double>(std::abs(level)) / kLevels;
  const int end[3] = {level < 0 ? 0x15 : 0xc8, level < 0 ? 0x57 : 0x40,
                      level < 0 ? 0xb0 : 0x1f};
  int rgb[3];
  for (int i = 0; i < 3; ++i) {
    rgb[i] = static_cast<int>(std::lround(255 + share * (end[i] - 255)));
  }
  return absl::StrFormat("#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
}

double LastPosition(const v1::Encoding& definition, double span) {
  if (span > 0) return span;
  double last = 128;
  for (const v1::Absolute& part : definition.absolutes()) {
    if (!part.has_learned_table()) continue;
    const v1::LearnedTable& table = part.learned_table();
    const double rows = table.rows() - 1 - table.row_offset();
    last = std::min(last, rows * (table.has_step() ? table.step() : 1));
  }
  return last;
}

double Largest(const HeatMap& map) {
  double largest = 0;
  for (const auto& column : map.columns) {
    for (double x : column) largest = std::max(largest, std::abs(x));
  }
  return largest > 0 ? largest : 1;
}

}  // namespace

absl::StatusOr<HeatMap> AbsoluteMap(const v1::ResolvedEncoding& encoding,
                                    int kv_head, double span) {
  HeatMap map;
  if (encoding.definition().absolutes().empty()) return map;
  const double last = LastPosition(encoding.definition(), span);
  // Whole positions where tables may know no others.
  const double step = std::max(1.0, std::ceil(last / kColumns));
  for (double at = 0; at <= last; at += step) {
    const auto since = [&](int64_t) { return resolved::DoubleDouble{at, 0}; };
    auto column = resolved::AbsoluteParts(encoding.definition(), false, kv_head,
                                          encoding.head_dim(),
                                          {since, static_cast<int64_t>(at)});
    if (!column.ok()) return column.status();
    map.positions.push_back(at);
    map.columns.push_back(*std::move(column));
  }
  return map;
}

void DrawHeatMap(Svg* svg, const SvgRect& frame, const HeatMap& map) {
  const double largest = Largest(map);
  const size_t channels = map.columns[0].size();
  const double width = frame.width / static_cast<double>(map.positions.size());
  const double height = frame.height / static_cast<double>(channels);
  std::vector<std::vector<SvgPoint>> cells(2 * kLevels + 1);
  for (size_t p = 0; p < map.positions.size(); ++p) {
    for (size_t c = 0; c < channels; ++c) {
      const auto level = std::lround(kLevels * map.columns[p][c] / largest);
      cells[level + kLevels].push_back(
          {frame.left + (static_cast<double>(p) + 0.5) * width,
           frame.top + (static_cast<double>(c) + 0.5) * height});
    }
  }
  const double step =
      map.positions.size() > 1 ? map.positions[1] - map.positions[0] : 1;
  const PlotAxis x = {.low = map.positions.front() - step / 2,
                      .high = map.positions.back() + step / 2,
                      .whole = true};
  const PlotAxis y = {.low = -0.5,
                      .high = static_cast<double>(channels) - 0.5,
                      .reversed = true,
                      .whole = true};
  // The axes first, so that the map hides their grid; then the frame again.
  PlotFrame chart(svg, frame, x, y);
  chart.Title("absolute parts, added to keys");
  chart.Axes("position in units since the origin", "channel");
  for (int level = -kLevels; level <= kLevels; ++level) {
    // A little larger than their place: no white seams between them.
    svg->Cells(cells[level + kLevels], width + 0.3, height + 0.3,
               ColorOf(level));
    const double at = static_cast<double>(kLevels - level) / (2 * kLevels);
    svg->Rect(
        {frame.right() + 18, frame.top + at * (frame.height - 16), 18, 16},
        ColorOf(level));
  }
  svg->Rect(frame, "none", "#9aa3ad");
  svg->Rect({frame.right() + 18, frame.top, 18, frame.height}, "none",
            "#9aa3ad");
  svg->Text({frame.right() + 42, frame.top + 12},
            absl::StrFormat("%.3g", largest), {.size = 12});
  svg->Text({frame.right() + 42, frame.bottom()},
            absl::StrFormat("%.3g", -largest), {.size = 12});
}

}  // namespace attnd::client
