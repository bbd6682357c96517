#include "client/show/encoding_plot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/plot/plot_frame.h"
#include "client/plot/svg.h"
#include "client/show/curves.h"
#include "client/show/heat_map.h"
#include "client/show/lag_scales.h"
#include "client/show/plot_words.h"

namespace attnd::client {
namespace {

// Told apart by lightness too, for eyes that do not tell all hues apart.
constexpr const char* kColors[] = {"#1557b0", "#c8401f", "#1b8a5a", "#8a4fb0",
                                   "#b8860b", "#2a9db5", "#6b7785", "#d0679d"};
constexpr char kMeanColor[] = "#222222";

constexpr double kWidth = 1190;
constexpr double kLeft = 96;
constexpr double kRight = 390;  // with the legend
constexpr double kPanel = 280;
constexpr double kOrbit = 200;
constexpr double kBetween = 96;
constexpr double kHeader = 96;
constexpr double kNote = 24;
constexpr int kMostHeads = 4;
constexpr int kMostOrbits = 4;

std::vector<int> HeadsToShow(const v1::ResolvedEncoding& encoding,
                             const EncodingPlotOptions& options) {
  if (!options.heads.empty()) return options.heads;
  const int heads = HeadsOf(encoding);
  std::vector<int> chosen;
  const int n = std::min(heads, kMostHeads);
  for (int i = 0; i < n; ++i) {
    chosen.push_back(n == 1 ? 0 : i * (heads - 1) / (n - 1));
  }
  return chosen;
}

// A weight of e^-20 is nothing beside one.
constexpr double kLowestBias = -20;

// The lags of the biases: blocks may look much further.
PlotAxis BiasLags(v1::ResolvedEncoding encoding, double span) {
  encoding.clear_generators();
  return LagAxis(encoding, span);
}

PlotAxis ValueAxis(const std::vector<Curve>& curves, double lowest) {
  double low = 0, high = 0;
  for (const Curve& curve : curves) {
    for (const ChartPoint& point : curve.points) {
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  }
  low = std::max(low, lowest);
  if (low == high) high = low + 1;
  const double margin = 0.05 * (high - low);
  return {.low = low - margin, .high = high + margin};
}

// Draws from the top down.
class Page {
 public:
  Page(const v1::ResolvedEncoding& encoding, double height)
      : svg_(kWidth, height, absl::StrCat("time encoding ", encoding.name()),
             encoding.summary()) {
    svg_.Text({kLeft, 36}, encoding.name(), {.size = 20, .bold = true});
    svg_.Text({kLeft, 58}, encoding.summary());
  }

  void Curves(const std::string& title, const std::string& y_label,
              const std::vector<Curve>& curves, const PlotAxis& lags,
              const std::string& x_label, bool mean_first) {
    const SvgRect frame = {kLeft, top_, kWidth - kLeft - kRight, kPanel};
    const double lowest = mean_first ? -HUGE_VAL : kLowestBias;
    PlotFrame chart(&svg_, frame, lags, ValueAxis(curves, lowest));
    chart.Title(title);
    chart.Axes(x_label, y_label);
    // The first is drawn last, above the others.
    for (size_t n = curves.size(); n-- > 0;) {
      const bool mean = mean_first && n == 0;
      const char* color =
          mean ? kMeanColor : kColors[(n - mean_first) % std::size(kColors)];
      chart.Line(curves[n].points, color, mean ? 2.6 : 1.4);
      const double y = top_ + 14 + 22 * static_cast<double>(n);
      const double x = frame.right() + 18;
      svg_.Path({{x, y - 4}, {x + 24, y - 4}}, color, mean ? 2.6 : 1.4);
      svg_.Text({x + 32, y}, curves[n].label, {.size = 12});
    }
    top_ += kPanel + kBetween;
  }

  void Orbits(const std::string& heads, const std::vector<Orbit>& orbits) {
    const double size = kOrbit, step = kOrbit + 50;
    svg_.Text({kLeft, top_ - 12},
              absl::StrCat("orbits of a vector in its plane, ", heads,
                           "; dots: after 0 to 16 units"),
              {.size = 14, .bold = true});
    for (size_t n = 0; n < orbits.size(); ++n) {
      const SvgRect frame = {kLeft + step * static_cast<double>(n), top_, size,
                             size};
      double extent = 1;
      for (const ChartPoint& p : orbits[n].path) {
        extent = std::max({extent, std::abs(p.x), std::abs(p.y)});
      }
      const PlotAxis axis = {.low = -1.15 * extent, .high = 1.15 * extent};
      const auto place = [&](const ChartPoint& p) {
        return SvgPoint{frame.left + size * axis.Share(p.x),
                        frame.bottom() - size * axis.Share(p.y)};
      };
      std::vector<SvgPoint> path, steps;
      for (const ChartPoint& p : orbits[n].path) path.push_back(place(p));
      for (const ChartPoint& p : orbits[n].steps) steps.push_back(place(p));
      svg_.Rect(frame, "none", "#9aa3ad");
      svg_.Line(place({axis.low, 0}), place({axis.high, 0}), "#e3e6ea");
      svg_.Line(place({0, axis.low}), place({0, axis.high}), "#e3e6ea");
      svg_.Path(path, "#9db7d8", 1.6);
      svg_.Dots(steps, kColors[0], 5);
      svg_.Dots({steps.front()}, kColors[1], 8);
      svg_.Text({frame.left, frame.bottom() + 18}, orbits[n].label,
                {.size = 11});
    }
    top_ += size + kBetween;
  }

  void Map(const HeatMap& map) {
    DrawHeatMap(&svg_, {kLeft, top_, kWidth - kLeft - kRight, kPanel}, map);
    top_ += kPanel + kBetween;
  }

  void Notes(const std::vector<std::string>& notes) {
    for (const std::string& note : notes) {
      svg_.Text({kLeft, top_}, note);
      top_ += kNote;
    }
  }

  std::string Finish() const { return svg_.Finish(); }

 private:
  Svg svg_;
  double top_ = kHeader;
};

// What kv heads that are alike look like.
struct Kernel {
  std::vector<int> kv_heads;
  std::vector<Curve> curves;
  std::vector<Orbit> orbits;

  // Depends on the lag: there is more than the mean.
  bool timed() const { return curves.size() > 1; }
  std::string Name() const {
    return absl::StrCat(kv_heads.size() > 1 ? "kv heads " : "kv head ",
                        absl::StrJoin(kv_heads, ", "));
  }
  double Height() const {
    return (timed() ? kPanel + kBetween : 0) +
           (orbits.empty() ? 0 : kOrbit + kBetween);
  }
};

// Of the kv heads that these query heads read, those that are alike in one.
absl::StatusOr<std::vector<Kernel>> KernelsOf(
    const v1::ResolvedEncoding& encoding, const std::vector<int>& heads,
    const PlotAxis& lags) {
  std::vector<Kernel> kernels;
  std::map<std::string, size_t> known;  // by generator
  for (const int head : heads) {
    const int kv_head = head * encoding.generators_size() / HeadsOf(encoding);
    const std::string generator =
        encoding.generators().empty()
            ? ""
            : encoding.generators(kv_head).SerializeAsString();
    const auto [it, fresh] = known.try_emplace(generator, kernels.size());
    if (fresh) {
      auto curves = KernelCurves(encoding, kv_head, lags);
      if (!curves.ok()) return curves.status();
      auto orbits = client::Orbits(encoding, kv_head, kMostOrbits);
      if (!orbits.ok()) return orbits.status();
      kernels.push_back({{}, *std::move(curves), *std::move(orbits)});
    }
    std::vector<int>& alike = kernels[it->second].kv_heads;
    if (alike.empty() || alike.back() != kv_head) alike.push_back(kv_head);
  }
  return kernels;
}

bool Same(const std::vector<Curve>& a, const std::vector<Curve>& b) {
  const auto same_point = [](const ChartPoint& p, const ChartPoint& q) {
    return p.x == q.x && p.y == q.y;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Curve& p, const Curve& q) {
                      return std::equal(p.points.begin(), p.points.end(),
                                        q.points.begin(), q.points.end(),
                                        same_point);
                    });
}

}  // namespace

absl::StatusOr<std::string> PlotEncoding(const v1::ResolvedEncoding& encoding,
                                         const EncodingPlotOptions& options) {
  const std::vector<int> heads = HeadsToShow(encoding, options);
  for (int head : heads) {
    if (head >= 0 && head < HeadsOf(encoding)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("head ", head, ": the encoding has ", HeadsOf(encoding)));
  }
  const PlotAxis lags = LagAxis(encoding, options.span);
  const auto kernels = KernelsOf(encoding, heads, lags);
  if (!kernels.ok()) return kernels.status();
  const PlotAxis bias_lags = BiasLags(encoding, options.span);
  const std::vector<Curve> biases = BiasCurves(encoding, heads, bias_lags);
  std::vector<Curve> future;
  if (!encoding.causal_only()) {
    future = BiasCurves(encoding, heads, bias_lags, -1);
    if (Same(biases, future)) future.clear();
  }
  const auto map =
      AbsoluteMap(encoding, kernels->front().kv_heads[0], options.span);
  if (!map.ok()) return map.status();

  double height = kHeader;
  for (const bool panel : {!biases.empty(), !future.empty(), !map->empty()}) {
    if (panel) height += kPanel + kBetween;
  }
  for (const Kernel& kernel : *kernels) height += kernel.Height();
  std::vector<std::string> notes = NotDrawn(encoding);
  if (notes.empty() && height == kHeader) {
    notes.emplace_back("Nothing here depends on the lag: nothing to draw.");
  }
  height += kNote * static_cast<double>(notes.size());
  Page page(encoding, height);
  for (const Kernel& kernel : *kernels) {
    if (!kernel.timed()) continue;
    page.Curves(absl::StrCat("kernel A(D), ", kernel.Name()), "entries of A(D)",
                kernel.curves, lags, KernelLagLabel(encoding), true);
  }
  if (!biases.empty()) {
    page.Curves(future.empty() ? "bias(D)" : "bias(D) of the past",
                "added to the logit", biases, bias_lags,
                "lag D in units, query after key", false);
  }
  if (!future.empty()) {
    page.Curves("bias(D) of the future", "added to the logit", future,
                bias_lags, "-D in units, key after query", false);
  }
  for (const Kernel& kernel : *kernels) {
    if (!kernel.orbits.empty()) page.Orbits(kernel.Name(), kernel.orbits);
  }
  if (!map->empty()) page.Map(*map);
  page.Notes(notes);
  return page.Finish();
}

}  // namespace attnd::client
