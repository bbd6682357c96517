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
  double first_step = HUGE_VAL;

  void Add(double scale) {
    scale = std::abs(scale);
    if (!(scale > 0) || !std::isfinite(scale)) return;
    shortest = std::min(shortest, scale);
    longest = std::max(longest, scale);
  }
  // What changes in steps has nothing to show before the first.
  void AddSteps(double first, double last) {
    first_step = std::min(first_step, first);
    longest = std::max(longest, last);
  }
};

void AddBlock(const v1::ResolvedBlock& block, Scales& scales) {
  scales.Add(kTwoPi / TurnPerUnit(block));
  scales.Add(1 / block.rate());
  scales.Add(1 / block.coupling());
  for (double x : block.matrix()) scales.Add(1 / x);
}

void AddBias(const v1::Bias& bias, Scales& scales) {
  if (bias.has_lag_table()) {
    for (double lag : bias.lag_table().lags()) scales.Add(lag);
  } else if (bias.has_t5_buckets()) {
    scales.AddSteps(1, bias.t5_buckets().has_max_distance()
                           ? bias.t5_buckets().max_distance()
                           : 128);
  } else if (bias.has_hstu_buckets()) {
    const v1::HstuBuckets& hstu = bias.hstu_buckets();
    const double step = hstu.has_log_step() ? hstu.log_step() : 0.301;
    const int last = hstu.has_max_bucket() ? hstu.max_bucket() : 128;
    scales.AddSteps(std::exp(step), std::min(std::exp(step * last), 1e6));
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

double TurnPerUnit(const v1::ResolvedBlock& block) {
  double turn = block.frequency(), size = std::abs(turn);
  for (const v1::ResolvedTerm& term : block.further()) {
    turn += term.frequency();
    size += std::abs(term.frequency());
  }
  // What rounding leaves of 0.1 + 0.2 - 0.3 is no turn.
  return std::abs(turn) < 1e-12 * size ? 0 : turn;
}

PlotAxis LagAxis(const v1::ResolvedEncoding& encoding, double span) {
  Scales scales;
  for (const v1::ResolvedGenerator& generator : encoding.generators()) {
    for (const v1::ResolvedBlock& block : generator.blocks()) {
      AddBlock(block, scales);
    }
  }
  for (const v1::Bias& bias : encoding.definition().biases()) {
    AddBias(bias, scales);
  }
  for (double horizon : encoding.effective_horizon()) {
    if (horizon <= 0) continue;
    std::isinf(scales.first_step) ? scales.Add(horizon)
                                  : scales.AddSteps(horizon, horizon);
  }
  if (scales.longest == 0) scales.Add(1);
  const double end = span > 0 ? span : 4 * scales.longest;
  const double finest = std::min(scales.shortest, scales.first_step);
  if (end <= 100 * finest) return {.low = 0, .high = end};
  const double begin =
      std::max(std::min(scales.shortest / 100, scales.first_step / 2),
               end / std::pow(10.0, kMostDecades));
  return {.low = begin, .high = end, .logarithmic = true};
}

}  // namespace attnd::client
