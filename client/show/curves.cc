#include "client/show/curves.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/resolved/bias.h"
#include "client/resolved/generator.h"
#include "client/show/lag_scales.h"
#include "client/show/plot_words.h"

namespace attnd::client {
namespace {

constexpr int kPoints = 480;
// Per point: enough to blur what turns faster than the axis shows.
constexpr int kSamples = 8;
constexpr int kMostBlocks = 5;

// `most` of `count` things, the first and the last among them.
std::vector<int> Spread(int count, int most) {
  std::vector<int> chosen;
  const int n = std::min(count, most);
  for (int i = 0; i < n; ++i) {
    chosen.push_back(n == 1 ? 0 : i * (count - 1) / (n - 1));
  }
  return chosen;
}

// The lag at a place of the axis, in points.
double LagAt(const PlotAxis& lags, double point) {
  return lags.At(point / kPoints);
}

template <typename F>
std::vector<ChartPoint> Sample(const PlotAxis& lags, const F& value) {
  std::vector<ChartPoint> points;
  for (int p = 0; p < kPoints; ++p) {
    double sum = 0;
    for (int s = 0; s < kSamples; ++s) {
      sum += value(LagAt(lags, p + (s + 0.5) / kSamples));
    }
    points.push_back({LagAt(lags, p + 0.5), sum / kSamples});
  }
  return points;
}

bool HasSteps(const v1::Encoding& definition) {
  return std::any_of(definition.biases().begin(), definition.biases().end(),
                     [](const v1::Bias& bias) {
                       return bias.has_t5_buckets() || bias.has_hstu_buckets();
                     });
}

// Values at places of the axis, and both sides of a step between two of them.
template <typename F>
std::vector<ChartPoint> SampleSteps(const PlotAxis& lags, const F& value) {
  std::vector<ChartPoint> points;
  for (int p = 0; p <= kPoints; ++p) {
    const ChartPoint right = {LagAt(lags, p), value(LagAt(lags, p))};
    if (!points.empty() && points.back().y != right.y) {
      // The half with the larger change, until nothing lies between.
      ChartPoint low = points.back(), high = right;
      while (true) {
        const double middle = low.x + (high.x - low.x) / 2;
        if (middle <= low.x || middle >= high.x) break;
        const double y = value(middle);
        const bool before = std::abs(y - low.y) > std::abs(high.y - y);
        (before ? high : low) = {middle, y};
      }
      points.insert(points.end(), {low, high});
    }
    points.push_back(right);
  }
  return points;
}

std::vector<v1::ResolvedBlock> TimedBlocks(
    const v1::ResolvedGenerator& generator) {
  std::vector<v1::ResolvedBlock> blocks;
  for (const v1::ResolvedBlock& block : generator.blocks()) {
    if (block.kind() != "identity") blocks.push_back(block);
  }
  return blocks;
}

// A generator of one block alone, in its own basis.
absl::StatusOr<resolved::Generator> Alone(
    const v1::ResolvedGenerator& generator, v1::ResolvedBlock block) {
  v1::ResolvedGenerator alone;
  for (int c = 0; c < block.channels_size(); ++c) block.set_channels(c, c);
  *alone.add_blocks() = block;
  alone.set_averaged(generator.averaged());
  return resolved::Generator::Make(alone, block.channels_size());
}

// "period 6.28, 1/rate 31.5"; empty where it neither turns nor decays. With
// several axes the period is that along all of them at once.
std::string FiguresOf(const v1::ResolvedBlock& block) {
  std::vector<std::string> figures;
  const double turn = TurnPerUnit(block);
  if (turn != 0) {
    figures.push_back(
        absl::StrFormat("period %.3g", 2 * std::numbers::pi / std::abs(turn)));
  } else if (block.further_size() > 0) {
    figures.emplace_back("turns along its axes cancel");
  }
  if (block.rate() != 0) {
    figures.push_back(absl::StrFormat("1/rate %.3g", 1 / block.rate()));
  }
  return absl::StrJoin(figures, ", ");
}

std::string LabelOf(const v1::ResolvedBlock& block) {
  std::string kind = block.kind();
  std::replace(kind.begin(), kind.end(), '_', ' ');
  const std::string figures = FiguresOf(block);
  return figures.empty() ? kind : absl::StrCat(kind, ", ", figures);
}

// What one point of the axis covers, at most, before a block turns too far.
bool Resolves(const PlotAxis& lags, int point, double frequency) {
  const double cell = LagAt(lags, point + 1) - LagAt(lags, point);
  return std::abs(frequency) * cell < 1;
}

absl::Status AddBlockCurves(const v1::ResolvedGenerator& generator,
                            const v1::ResolvedBlock& block,
                            const std::string& where, const PlotAxis& lags,
                            std::vector<Curve>& curves) {
  const auto alone = Alone(generator, block);
  if (!alone.ok()) return alone.status();
  const auto add = [&](const std::string& label, int row, int column) {
    Curve curve{label, Sample(lags, [&](double lag) {
                  return alone->At(lag)(row, column);
                })};
    int visible = 0;
    while (visible < kPoints && Resolves(lags, visible, TurnPerUnit(block))) {
      ++visible;
    }
    curve.points.resize(visible);
    curves.push_back(std::move(curve));
  };
  add(LabelOf(block) + where, 0, 0);
  const int jets = block.size();
  if (jets > 1 && block.coupling() != 0) {
    const int pair = block.kind() == "complex_jordan" ? 2 : 1;
    add(absl::StrCat("coupling of its jets 0 and ", jets - 1), 0,
        pair * (jets - 1));
  }
  return absl::OkStatus();
}

// Blocks of the same curve.
struct Alike {
  v1::ResolvedBlock first;
  int blocks = 0;
  std::vector<int> channels;

  // Which ones they are, after a label.
  std::string Where() const {
    return blocks > 1 ? ", " + ChannelRanges(channels) : "";
  }
};

std::vector<Alike> GroupsOf(const v1::ResolvedGenerator& generator) {
  std::vector<Alike> groups;
  std::map<std::string, size_t> known;  // by what is drawn
  for (const v1::ResolvedBlock& block : TimedBlocks(generator)) {
    v1::ResolvedBlock drawn = block;
    drawn.clear_channels();
    if (block.kind() != "liere") {
      // Whatever drives it: all drives advance alike.
      drawn.set_frequency(TurnPerUnit(block));
      drawn.clear_further();
      drawn.clear_coordinate();
      drawn.clear_clock();
      drawn.clear_clock_channel();
      drawn.clear_decay_drive();
    }
    const auto [it, fresh] =
        known.try_emplace(drawn.SerializeAsString(), groups.size());
    if (fresh) groups.push_back({block, 0, {}});
    Alike& group = groups[it->second];
    ++group.blocks;
    group.channels.insert(group.channels.end(), block.channels().begin(),
                          block.channels().end());
  }
  return groups;
}

}  // namespace

absl::StatusOr<std::vector<Curve>> KernelCurves(
    const v1::ResolvedEncoding& encoding, int kv_head, const PlotAxis& lags) {
  const v1::ResolvedGenerator& resolved =
      encoding.generators(encoding.generators_size() == 1 ? 0 : kv_head);
  const auto generator =
      resolved::Generator::Make(resolved, encoding.head_dim());
  if (!generator.ok()) return generator.status();
  std::vector<Curve> curves;
  curves.push_back({"mean over channels", Sample(lags, [&](double lag) {
                      const resolved::Matrix a = generator->At(lag);
                      double trace = 0;
                      for (int c = 0; c < a.size; ++c) trace += a(c, c);
                      return trace / a.size;
                    })});
  const std::vector<Alike> groups = GroupsOf(resolved);
  for (int g : Spread(static_cast<int>(groups.size()), kMostBlocks)) {
    absl::Status status = AddBlockCurves(resolved, groups[g].first,
                                         groups[g].Where(), lags, curves);
    if (!status.ok()) return status;
  }
  return curves;
}

std::vector<Curve> BiasCurves(const v1::ResolvedEncoding& encoding,
                              const std::vector<int>& heads,
                              const PlotAxis& lags, int side) {
  std::vector<Curve> curves;
  const bool steps = HasSteps(encoding.definition());
  for (int head : heads) {
    const auto bias = [&](double lag) {
      return resolved::LagBias(encoding, head, HeadsOf(encoding),
                               {side * lag, 0}, lag)
          .value;
    };
    Curve curve{absl::StrCat("head ", head),
                steps ? SampleSteps(lags, bias) : Sample(lags, bias)};
    const bool any = std::any_of(curve.points.begin(), curve.points.end(),
                                 [](const ChartPoint& p) { return p.y != 0; });
    if (!any) continue;
    const auto same = [&](const Curve& other) {
      return std::equal(
          curve.points.begin(), curve.points.end(), other.points.begin(),
          other.points.end(),
          [](const ChartPoint& a, const ChartPoint& b) { return a.y == b.y; });
    };
    const auto twin = std::find_if(curves.begin(), curves.end(), same);
    if (twin == curves.end()) {
      curves.push_back(std::move(curve));
    } else {
      absl::StrAppend(&twin->label, ", ", head);
    }
  }
  return curves;
}

absl::StatusOr<std::vector<Orbit>> Orbits(const v1::ResolvedEncoding& encoding,
                                          int kv_head, int most) {
  const v1::ResolvedGenerator& generator =
      encoding.generators(encoding.generators_size() == 1 ? 0 : kv_head);
  std::vector<Alike> planes = GroupsOf(generator);
  std::erase_if(
      planes, [](const Alike& group) { return TurnPerUnit(group.first) == 0; });
  std::vector<Orbit> orbits;
  for (int p : Spread(static_cast<int>(planes.size()), most)) {
    const v1::ResolvedBlock& plane = planes[p].first;
    const auto alone = Alone(generator, plane);
    if (!alone.ok()) return alone.status();
    const auto at = [&](double lag) {
      const resolved::Matrix a = alone->At(lag);
      return ChartPoint{a(0, 0), a(1, 0)};
    };
    const double period = 2 * std::numbers::pi / std::abs(TurnPerUnit(plane));
    const double end =
        plane.rate() == 0
            ? period
            : std::max(period, std::min(4 / plane.rate(), 12 * period));
    Orbit orbit{FiguresOf(plane) + planes[p].Where(), {}, {}};
    for (int n = 0; n <= kPoints; ++n) {
      orbit.path.push_back(at(end * n / kPoints));
    }
    for (int n = 0; n <= 16; ++n) orbit.steps.push_back(at(n));
    orbits.push_back(std::move(orbit));
  }
  return orbits;
}

int HeadsOf(const v1::ResolvedEncoding& encoding) {
  return std::max(1, encoding.effective_horizon_size());
}

}  // namespace attnd::client
