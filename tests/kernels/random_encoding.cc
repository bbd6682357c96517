#include "tests/kernels/random_encoding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/basis.h"
#include "tests/kernels/random_parts.h"
#include "tests/kernels/random_places.h"

namespace attnd::testing {
namespace {

// Functions of time that never run backwards, one per channel, head and item.
void SetClocks(Random& random, double span, int channels, ProblemSpec& spec) {
  spec.query_clock.clear();
  spec.key_clock.clear();
  spec.clock_channels = std::max(1, channels);
  if (channels == 0) return;
  const int64_t count = spec.batch * spec.kv_heads * channels;
  std::vector<double> speeds, grids;
  for (int64_t n = 0; n < count; ++n) {
    speeds.push_back(LogUniform(random, 1e-2, 1e2));
    grids.push_back(random.Coin() ? span / 20 : 0);
  }
  for (const bool query : {true, false}) {
    std::vector<float>& clock = query ? spec.query_clock : spec.key_clock;
    const int64_t rows = query ? spec.queries : spec.keys;
    for (int64_t bg = 0; bg < spec.batch * spec.kv_heads; ++bg) {
      for (int64_t r = 0; r < rows; ++r) {
        const double at = PlaceOfRow(spec, query, bg / spec.kv_heads, r);
        for (int c = 0; c < channels; ++c) {
          const double grid = grids[bg * channels + c];
          clock.push_back(static_cast<float>(
              speeds[bg * channels + c] *
              (grid > 0 ? grid * std::floor(at / grid) : at)));
        }
      }
    }
  }
}

// Blocks for all heads or for each, some of them in a basis.
void SetRandomBlocks(Random& random, RandomParts& parts, ProblemSpec& spec) {
  EncodingSpec& encoding = *spec.encoding;
  if (spec.kv_heads > 1 && Rarely(random, 4)) {
    for (int64_t g = 0; g < spec.kv_heads; ++g) {
      encoding.per_head.push_back(parts.Blocks());
    }
  } else {
    encoding.blocks = parts.Blocks();
  }
  if (parts.by_places() || spec.dim > 32 || !Rarely(random, 6)) return;
  std::vector<double> lower(spec.dim * (spec.dim - 1) / 2);
  for (double& entry : lower) entry = 0.3 * random.Normal();
  encoding.basis = *CayleyBasis(lower, static_cast<int>(spec.dim), "basis");
}

// What is defined for lags >= 0 alone sees no others, or takes their size.
void SetDirections(Random& random, const RandomParts& parts,
                   ProblemSpec& spec) {
  const bool past_alone = spec.causal && spec.prefix == 0;
  if (parts.unordered() ||
      (parts.one_sided() && !past_alone && random.Coin())) {
    spec.encoding->absolute_lag = true;
  } else if (parts.one_sided()) {
    spec.causal = true;
    spec.prefix = 0;
  }
}

// Stands all queries at the latest key, as a stream decodes.
void MoveQueriesToTheEnd(ProblemSpec& spec) {
  const auto move = [&](auto& queries, const auto& keys) {
    if (queries.empty()) return;
    auto latest = keys[0];
    for (size_t e = 0; e < keys.size(); e += spec.coordinates) {
      latest = std::max(latest, keys[e]);
    }
    for (size_t e = 0; e < queries.size(); e += spec.coordinates) {
      queries[e] = latest;
    }
  };
  move(spec.query_ticks, spec.key_ticks);
  move(spec.query_real, spec.key_real);
}

// Tolerates that tiles are left out, and mostly has some that weigh little.
void SetPrunable(Random& random, RandomParts& parts, ProblemSpec& spec) {
  spec.prune_tolerance = LogUniform(random, 1e-9, 0.5);
  spec.bias_shape = {};
  spec.bias.clear();
  spec.value_mask.clear();
  if (random.Coin()) MoveQueriesToTheEnd(spec);
  if (!Rarely(random, 8)) spec.encoding->biases = {parts.FallingBias()};
  if (Rarely(random, 3)) spec.encoding->biases.push_back(parts.Bias());
}

}  // namespace

void SetRandomEncoding(ProblemSpec& spec) {
  Random random(spec.seed ^ 0x656e63);
  EncodingSpec& encoding = spec.encoding.emplace();
  const double span = SetRandomPlaces(random, spec);
  RandomParts parts(random, spec, span);
  if (random.Integer(0, 3) > 0) SetRandomBlocks(random, parts, spec);
  if (Rarely(random, 3)) {
    SetPrunable(random, parts, spec);
  } else {
    while (random.Coin()) encoding.biases.push_back(parts.Bias());
  }
  if (Rarely(random, 5)) encoding.absolutes.push_back(parts.Absolute());
  if (Rarely(random, 8)) {
    encoding.temperature =
        QueryTemperature{.llama4 = random.Coin(),
                         .length = LogUniform(random, 2, 1e4),
                         .scale = random.Uniform()};
  }
  SetDirections(random, parts, spec);
  SetClocks(random, span, parts.clock_channels(), spec);
  spec.gates.clear();
  if (parts.gates()) {
    const double most = LogUniform(random, 1e-4, 30);
    for (int64_t e = 0; e < spec.batch * spec.query_heads * spec.keys; ++e) {
      spec.gates.push_back(static_cast<float>(-most * random.Uniform()));
    }
  }
  spec.bf16_compute = Rarely(random, 6);
}

void SetRandomCarriedEncoding(ProblemSpec& spec) {
  Random random(spec.seed ^ 0x6c696e);
  spec.encoding.emplace();
  const double span = SetRandomPlaces(random, spec);
  RandomParts parts(random, spec, span, /*carried=*/true);
  SetRandomBlocks(random, parts, spec);
  SetClocks(random, span, parts.clock_channels(), spec);
}

}  // namespace attnd::testing
