#include "client/show/lag_scales.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attnd::client {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;
// Beyond this many decades of periods nothing can be seen of the slowest.
constexpr double kMostDecades = 8;

struct Scales {
  double shortest = HUGE_VAL, longest = 0;

  void Add(double scale) {
    scale = std::abs(scale);
    if (!(scale > 0) || !std::isfinite(scale)) return;
    shortest = std::min(shortest, scale);
    longest = std::max(longest, scale);
  }
};

void AddBlock(const v1::ResolvedBlock& block, Scales& scales) {
  scales.Add(kTwoPi / block.frequency());
  scales.Add(1 / block.rate());
  scales.Add(1 / block.coupling());
  for (double x : block.matrix()) scales.Add(1 / x);
}

void AddBias(const v1::Bias& bias, Scales& scales) {
  if (bias.has_lag_table()) {
    for (double lag : bias.lag_table().lags()) scales.Add(lag);
  } else if (bias.has_t5_buckets()) {
    scales.Add(bias.t5_buckets().has_max_distance()
                   ? bias.t5_buckets().max_distance()
                   : 128);
  } else if (bias.has_hstu_buckets()) {
    scales.Add(1);
    scales.Add(1e6);
  } else if (bias.has_sandwich()) {
    scales.Add(kTwoPi);
    scales.Add(1e3);
  } else if (bias.has_fire()) {
    scales.Add(bias.fire().has_threshold() ? bias.fire().threshold() : 512);
  } else if (bias.has_grape_additive()) {
    for (double slope : bias.grape_additive().slopes()) scales.Add(1 / slope);
  }
}

}  // namespace

PlotAxis LagAxis(const v1::ResolvedEncoding& encoding, double span) {
  Scales scales;
  for (const v1::ResolvedGenerator& generator : encoding.generators()) {
    for (const v1::ResolvedBlock& block : generator.blocks()) {
      AddBlock(block, scales);
    }
  }
  for (double horizon : encoding.effective_horizon()) {
    if (horizon > 0) scales.Add(horizon);
  }
  for (const v1::Bias& bias : encoding.definition().biases()) {
    AddBias(bias, scales);
  }
  if (scales.longest == 0) scales.Add(1);
  const double end = span > 0 ? span : 4 * scales.longest;
  if (end <= 100 * scales.shortest) return {.low = 0, .high = end};
  const double begin =
      std::max(scales.shortest / 100, end / std::pow(10.0, kMostDecades));
  return {.low = begin, .high = end, .logarithmic = true};
}

}  // namespace attnd::client
