#include "tests/kernels/random_encoding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/basis.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/encoding_families.h"
#include "tests/kernels/random_parts.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

// Sets times and units; returns the span in units.
double SetTimesAndUnit(Random& random, ProblemSpec& spec) {
  spec.coordinates = 1;
  if (spec.kind == Kind::kPositions) {
    spec.ratio = {};
    return static_cast<double>(std::max(spec.queries, spec.keys));
  }
  const double span_ns = LogUniform(random, 1, 3e18);
  const double units = LogUniform(random, 1e-3, 1e6);
  const auto unit_ns =
      static_cast<int64_t>(std::clamp(std::round(span_ns / units), 1.0, 9e18));
  SetRandomTimes(random, Kind::kTicks, random.Coin(), 1e-9 * span_ns, spec);
  spec.query_real.clear();
  spec.key_real.clear();
  spec.ratio = {.tick_ns = 1, .unit_ns = unit_ns};
  return span_ns / static_cast<double>(unit_ns);
}

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
  const auto fill = [&](const std::vector<int64_t>& ticks, int64_t rows,
                        std::vector<float>& clock) {
    for (int64_t bg = 0; bg < spec.batch * spec.kv_heads; ++bg) {
      const int64_t item = bg / spec.kv_heads;
      const bool per_item = static_cast<int64_t>(ticks.size()) > rows;
      for (int64_t r = 0; r < rows; ++r) {
        // The last query stands at the last key.
        double at = static_cast<double>(r - rows);
        if (spec.kind == Kind::kTicks) {
          const int64_t t = ticks[(per_item ? item * rows : 0) + r];
          at = static_cast<double>(static_cast<__int128>(t) -
                                   spec.key_ticks[0]) *
               spec.ratio.units_per_tick();
        }
        for (int c = 0; c < channels; ++c) {
          const double grid = grids[bg * channels + c];
          clock.push_back(static_cast<float>(
              speeds[bg * channels + c] *
              (grid > 0 ? grid * std::floor(at / grid) : at)));
        }
      }
    }
  };
  fill(spec.query_ticks, spec.queries, spec.query_clock);
  fill(spec.key_ticks, spec.keys, spec.key_clock);
}

// The oracle takes the sum of several biases over the lag for one term, however
// much of them cancels.
double SlackOfLagBiases(const EncodingSpec& encoding) {
  const auto count = std::count_if(
      encoding.biases.begin(), encoding.biases.end(), [](const BiasTerm& b) {
        return !std::holds_alternative<AlibiTerm>(b) &&
               !std::holds_alternative<CumulativeGateTerm>(b) &&
               !std::holds_alternative<PathIntegralTerm>(b) &&
               !std::holds_alternative<GrapeAdditiveTerm>(b);
      });
  return count > 1 ? 10 : 1;
}

}  // namespace

void SetRandomEncoding(ProblemSpec& spec) {
  Random random(spec.seed ^ 0x656e63);
  spec.key_ranges.clear();
  const double span = SetTimesAndUnit(random, spec);
  if (spec.past_ticks) {
    spec.past_ticks = static_cast<int64_t>(LogUniform(random, 1e-3, 1) * span /
                                           spec.ratio.units_per_tick());
  }
  if (spec.future_ticks) {
    spec.future_ticks = static_cast<int64_t>(
        LogUniform(random, 1e-3, 1) * span / spec.ratio.units_per_tick());
  }
  RandomParts parts(random, spec, span);
  EncodingSpec& encoding = spec.encoding.emplace();
  if (random.Integer(0, 3) > 0) {
    if (spec.kv_heads > 1 && Rarely(random, 4)) {
      for (int64_t g = 0; g < spec.kv_heads; ++g) {
        encoding.per_head.push_back(parts.Blocks());
      }
    } else {
      encoding.blocks = parts.Blocks();
    }
  }
  while (random.Coin()) encoding.biases.push_back(parts.Bias());
  if (Rarely(random, 5)) encoding.absolutes.push_back(parts.Absolute());
  if (Rarely(random, 8) && spec.dim <= 32) {
    std::vector<double> lower(spec.dim * (spec.dim - 1) / 2);
    for (double& entry : lower) entry = 0.3 * random.Normal();
    encoding.basis = *CayleyBasis(lower, static_cast<int>(spec.dim), "basis");
  }
  if (Rarely(random, 8)) {
    encoding.temperature =
        QueryTemperature{.llama4 = random.Coin(),
                         .length = LogUniform(random, 2, 1e4),
                         .scale = random.Uniform()};
  }
  if (spec.kind == Kind::kTicks) encoding.unit_ns = spec.ratio.unit_ns;
  if (parts.one_sided() && !spec.causal) {
    if (random.Coin()) {
      encoding.absolute_lag = true;
    } else {
      spec.causal = true;
    }
  }
  SetClocks(random, span, parts.clock_channels(), spec);
  spec.gates.clear();
  if (parts.gates()) {
    const double most = LogUniform(random, 1e-4, 30);
    for (int64_t e = 0; e < spec.batch * spec.query_heads * spec.keys; ++e) {
      spec.gates.push_back(static_cast<float>(-most * random.Uniform()));
    }
  }
}

std::string JudgeIfDefined(const ProblemSpec& spec, double slack,
                           bool* defined) {
  if (defined != nullptr) *defined = false;
  const absl::StatusOr<OwnedProblem> owned = OwnedProblem::Build(spec);
  if (!owned.ok()) return owned.status().ToString();
  const absl::StatusOr<Plan> plan = Plan::Make(owned->problem());
  if (absl::IsInvalidArgument(plan.status())) return "";
  if (defined != nullptr) *defined = true;
  double condition = 1;
  const Encoder& encoder = *owned->problem().encoder;
  const int64_t heads = encoder.one_generator() ? 1 : spec.kv_heads;
  for (int64_t g = 0; g < heads; ++g) {
    condition = std::max(condition, encoder.head(g).generator().condition());
  }
  slack *= condition * Slack(*spec.encoding) * SlackOfLagBiases(*spec.encoding);
  const absl::StatusOr<ReferenceAnswer> reference =
      ReferenceAttention(owned->problem());
  if (!reference.ok()) return reference.status().ToString();
  // The output alone takes another way than scores and lse.
  for (const OutputSet& outputs :
       {kAllOutputs, OutputSet{.output = true},
        OutputSet{
            .output = true, .entropy = true, .key_mass = true, .top_k = 2}}) {
    const absl::StatusOr<Answer> answer = Run(owned->problem(), outputs);
    if (!answer.ok()) return answer.status().ToString();
    const std::string why = Compare(spec, *answer, *reference, slack);
    if (!why.empty()) {
      return absl::StrCat(outputs.scores ? "" : "without scores: ", why, "\n",
                          spec.Describe());
    }
  }
  return "";
}

}  // namespace attnd::testing
