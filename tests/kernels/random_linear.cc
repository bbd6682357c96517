#include "tests/kernels/random_linear.h"

#include <algorithm>
#include <cmath>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/kernels/encoding_families.h"
#include "tests/kernels/random_encoding.h"
#include "tests/kernels/random_places.h"

namespace attnd::testing {
namespace {

using Options = LinearOptions;

// What the linear kind has no meaning for.
void DropSoftmax(ProblemSpec& spec) {
  spec.bias_shape = {};
  spec.bias.clear();
  spec.past_ticks.reset();
  spec.future_ticks.reset();
  spec.past_time.reset();
  spec.future_time.reset();
  spec.past_keys.reset();
  spec.future_keys.reset();
  spec.prefix = 0;
  spec.causal_index = false;
  spec.causal = false;
  spec.softcap.reset();
  spec.sinks.clear();
  spec.value_mask.clear();
  // Sums over hundreds of seconds leave the range of f16.
  if (spec.output_dtype == DType::kF16) spec.output_dtype = DType::kBF16;
}

// One rate for all channels of a head, as RetNet's normaliser wants.
void SetCommonRate(Random& random, ProblemSpec& spec) {
  EncodingSpec& encoding = *spec.encoding;
  std::vector<double> rates;
  for (const Block& block : encoding.blocks) {
    if (const auto* decay = std::get_if<DecayBlock>(&block.kind)) {
      rates.push_back(decay->rates[0]);
    }
  }
  const double rate = rates.empty() ? 0 : random.Pick(rates);
  encoding.per_head.clear();
  encoding.blocks = {DecayBlock{.rates = {rate}}};
  if (spec.dim % 2 != 0 || random.Coin()) return;
  DampedRotationBlock turning{.rates = {rate}};
  for (int64_t p = 0; p < spec.dim / 2; ++p) {
    turning.frequencies.push_back(rate * random.Normal());
  }
  encoding.blocks = {turning};
}

// The oracle integrates over every turn of a held key.
bool TurnsTooFastToHold(const Encoder& encoder, const ProblemSpec& spec) {
  double fastest = 0;
  for (int64_t g = 0; g < spec.kv_heads; ++g) {
    for (const Plane& plane : encoder.head(g).generator().planes()) {
      fastest = std::max(fastest, std::abs(plane.omega));
      for (const PlaneTerm& term : plane.further) {
        fastest = std::max(fastest, std::abs(term.omega));
      }
    }
  }
  return fastest * LongestGap(spec) > 3000;
}

// Whether channels mix and are parted again: in planes, or by P and P^-1. Where
// features of q and k share no channel, what is left of each other then is all
// of an answer whose size is 0 to the contract.
bool Mixes(const Encoder& encoder, const ProblemSpec& spec) {
  for (int64_t g = 0; g < spec.kv_heads; ++g) {
    const Generator& generator = encoder.head(g).generator();
    if (!generator.basis().empty() || !generator.planes().empty()) return true;
  }
  return false;
}

}  // namespace

LinearCase RandomLinearCase(uint64_t seed, RandomLimits limits) {
  Random random(seed ^ 0x73756d);
  const Options::InputRule rule = random.Pick(std::vector<Options::InputRule>{
      Options::InputRule::kEvent, Options::InputRule::kEvent,
      Options::InputRule::kZeroOrderHold, Options::InputRule::kTrapezoid});
  // The oracle integrates.
  if (rule == Options::InputRule::kZeroOrderHold) {
    limits.pairs /= 15;
    limits.max_rows = std::min(limits.max_rows, limits.pairs);
    limits.max_dim = std::min<int64_t>(limits.max_dim, 6);
  }
  LinearCase which{RandomMaskedProblem(seed, limits), {}};
  ProblemSpec& spec = which.spec;
  DropSoftmax(spec);
  SetRandomCarriedEncoding(spec);
  Options& options = which.options;
  options.feature_map = random.Pick(std::vector<Options::FeatureMap>{
      Options::FeatureMap::kIdentity, Options::FeatureMap::kEluPlusOne,
      Options::FeatureMap::kRelu, Options::FeatureMap::kSoftplus});
  options.normaliser = random.Pick(std::vector<Options::Normaliser>{
      Options::Normaliser::kNone, Options::Normaliser::kNone,
      Options::Normaliser::kSum, Options::Normaliser::kRetNet});
  options.input_rule = rule;
  spec.encoding->absolute_lag = random.Integer(0, 4) == 0;
  if (options.normaliser == Options::Normaliser::kRetNet) {
    SetCommonRate(random, spec);
  } else if (rule == Options::InputRule::kEvent && random.Coin()) {
    options.bidirectional = spec.encoding->absolute_lag = true;
  }
  const auto owned = OwnedProblem::Build(spec);
  if (!owned.ok()) return which;  // its judge says why
  const Encoder& encoder = *owned->problem().encoder;
  if (options.input_rule == Options::InputRule::kZeroOrderHold &&
      TurnsTooFastToHold(encoder, spec)) {
    options.input_rule = Options::InputRule::kTrapezoid;
  }
  if (options.feature_map == Options::FeatureMap::kRelu &&
      Mixes(encoder, spec)) {
    options.feature_map = Options::FeatureMap::kSoftplus;
  }
  return which;
}

std::string JudgeEncoded(const LinearCase& which, double slack) {
  const auto owned = OwnedProblem::Build(which.spec);
  if (!owned.ok()) return owned.status().ToString();
  const Encoder& encoder = *owned->problem().encoder;
  double condition = 1;
  for (int64_t g = 0; g < which.spec.kv_heads; ++g) {
    condition = std::max(condition, encoder.head(g).generator().condition());
  }
  if (which.options.input_rule != Options::InputRule::kEvent &&
      !ReferenceKnows(which)) {
    return "";
  }
  // A below 2^-126 may count as 0; RetNet divides by the root of their sum.
  const double least =
      which.options.normaliser == Options::Normaliser::kRetNet ? 1e-16 : 1e-32;
  const std::string why =
      Judge(which, slack * condition * Slack(*which.spec.encoding), least);
  if (why.empty()) return why;
  return absl::StrCat(
      why, "; seed ", which.spec.seed, " normaliser ",
      static_cast<int>(which.options.normaliser), " feature map ",
      static_cast<int>(which.options.feature_map), " input rule ",
      static_cast<int>(which.options.input_rule),
      which.options.bidirectional ? " bidirectional" : "");
}

}  // namespace attnd::testing
