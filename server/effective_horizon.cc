#include "server/effective_horizon.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace attnd::server {
namespace {

// Where the search for a bias begins and ends, in units.
constexpr double kShortest = 0x1p-40;
constexpr double kLongest = 0x1p70;

// (1 - e^-x) / x = 1/e.
constexpr double kAveragedFall = 2.4937535303760874;

// Of the slowest channel; nothing when one does not decay.
std::optional<double> OfGenerator(const Generator& generator) {
  std::vector<double> rates(generator.dim(), 0.0);
  for (const Chain& chain : generator.chains()) {
    for (int c : chain.channels) rates[c] = chain.rate;
  }
  for (const SmallBlock& small : generator.small_blocks()) {
    for (int c : small.channels) rates[c] = small.rate;
  }
  const double slowest = *std::min_element(rates.begin(), rates.end());
  if (slowest <= 0) return std::nullopt;
  return (generator.averaged() ? kAveragedFall : 1) / slowest;
}

// First lag, to one part in 2^20, where the biases have fallen by 1.
std::optional<double> OfBiases(const Encoder& encoder, int head) {
  const auto fallen = [&](double lag) {
    const auto bias = [&](double at) {
      return encoder.lag_bias().Exact(
                 head, {.exact = false, .real = at, .elapsed = at}) -
             encoder.slope(head) * at;
    };
    return bias(lag) <= bias(0) - 1;
  };
  double high = kShortest;
  // Steps of an eighth of an octave, so that no dip of a table is missed that
  // is wider.
  const double step = std::exp2(0.125);
  while (high < kLongest && !fallen(high)) high *= step;
  if (high >= kLongest) return std::nullopt;
  double low = high / step;
  while (high / low > 1 + 0x1p-20) {
    const double middle = std::sqrt(low * high);
    (fallen(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

double EffectiveHorizon(const Encoder& encoder, int query_head) {
  const EncoderSizes& sizes = encoder.sizes();
  const int group = std::max(1, sizes.query_heads / sizes.kv_heads);
  const auto generator =
      OfGenerator(encoder.head(query_head / group).generator());
  const auto biases = OfBiases(encoder, query_head);
  if (!generator && !biases) return -1;
  return std::min(generator.value_or(HUGE_VAL), biases.value_or(HUGE_VAL));
}

}  // namespace attnd::server
