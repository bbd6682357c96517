#include "server/linear_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/linear_plan.h"
#include "server/hash.h"
#include "server/linear_wire.h"

namespace attnd::server {
namespace {

LinearOptions::Normaliser ToNormaliser(v1::LinearOptions::Normaliser wire) {
  switch (wire) {
    case v1::LinearOptions::NORMALISER_SUM:
      return LinearOptions::Normaliser::kSum;
    case v1::LinearOptions::NORMALISER_RETNET:
      return LinearOptions::Normaliser::kRetNet;
    default:
      return LinearOptions::Normaliser::kNone;
  }
}

LinearOptions::FeatureMap ToFeatureMap(v1::LinearOptions::FeatureMap wire) {
  switch (wire) {
    case v1::LinearOptions::FEATURE_MAP_ELU_PLUS_ONE:
      return LinearOptions::FeatureMap::kEluPlusOne;
    case v1::LinearOptions::FEATURE_MAP_RELU:
      return LinearOptions::FeatureMap::kRelu;
    case v1::LinearOptions::FEATURE_MAP_SOFTPLUS:
      return LinearOptions::FeatureMap::kSoftplus;
    default:
      return LinearOptions::FeatureMap::kIdentity;
  }
}

LinearOptions::InputRule ToInputRule(v1::LinearOptions::InputRule wire) {
  switch (wire) {
    case v1::LinearOptions::INPUT_RULE_ZERO_ORDER_HOLD:
      return LinearOptions::InputRule::kZeroOrderHold;
    case v1::LinearOptions::INPUT_RULE_TRAPEZOID:
      return LinearOptions::InputRule::kTrapezoid;
    default:
      return LinearOptions::InputRule::kEvent;
  }
}

// What makes states of two requests comparable, beside their shapes.
std::string StateHash(const v1::AttendRequest& request,
                      const std::string& encoding_hash) {
  const v1::LinearOptions& linear = request.linear();
  std::string text = absl::StrCat(
      encoding_hash, "|", static_cast<int>(request.key_time().type()), "|",
      static_cast<int>(ToNormaliser(linear.normaliser())), "|",
      static_cast<int>(ToFeatureMap(linear.feature_map())), "|",
      static_cast<int>(ToInputRule(linear.input_rule())));
  for (const int unit : request.key_time().units()) {
    absl::StrAppend(&text, "|", unit);
  }
  return Sha256(text);
}

void CheckMask(const v1::AttendRequest& request, Violations& violations) {
  const v1::Causality causal = request.mask().causal();
  const bool both = request.linear().bidirectional();
  if (causal == v1::CAUSALITY_NONE && !both) {
    violations.Add("mask.causal",
                   "kind LINEAR sums over the past of each query; leave it out "
                   "or set linear.bidirectional");
  }
  if (both && (causal == v1::CAUSALITY_TIME || causal == v1::CAUSALITY_INDEX)) {
    violations.Add("mask.causal", "contradicts linear.bidirectional");
  }
}

}  // namespace

DecodedLinear ReadLinear(const v1::AttendRequest& request,
                         const AttentionProblem& problem,
                         const std::string& encoding_hash, Payload payload,
                         Violations& violations) {
  const v1::LinearOptions& wire = request.linear();
  DecodedLinear out;
  out.options = {.normaliser = ToNormaliser(wire.normaliser()),
                 .feature_map = ToFeatureMap(wire.feature_map()),
                 .input_rule = ToInputRule(wire.input_rule()),
                 .bidirectional = wire.bidirectional()};
  out.return_state = wire.return_state();
  out.state_hash = StateHash(request, encoding_hash);
  CheckMask(request, violations);
  const LinearStateShape shape = StateShapeOf(LinearProblemOf(problem, out));
  if (out.return_state) out.reply_bytes = LinearStateBytes(shape);
  if (payload == Payload::kAbsent) return out;
  if (wire.has_initial_state()) {
    out.initial = ReadLinearState(wire.initial_state(), shape, out.state_hash,
                                  "linear.initial_state", violations);
  }
  for (int i = 0; i < wire.merge_states_size(); ++i) {
    LinearState state = ReadLinearState(
        wire.merge_states(i), shape, out.state_hash,
        absl::StrCat("linear.merge_states[", i, "]"), violations);
    if (!violations.empty()) break;
    if (!request.has_key_time()) {
      violations.Add("linear.merge_states",
                     "segments without times have no common clock to merge on");
      break;
    }
    if (!out.initial) {
      out.initial = std::move(state);
      continue;
    }
    auto merged = MergeLinearStates(problem.encoder.get(), *out.initial, state);
    if (merged.ok()) {
      out.initial = *std::move(merged);
    } else {
      violations.AddStatus(merged.status(), "", "linear.merge_states");
      break;
    }
  }
  return out;
}

LinearProblem LinearProblemOf(const AttentionProblem& problem,
                              const DecodedLinear& linear) {
  LinearProblem out;
  out.attention = problem;
  out.options = linear.options;
  out.initial_state = linear.initial ? &*linear.initial : nullptr;
  out.return_state = linear.return_state;
  out.gap_ratio = linear.gap_ratio;
  return out;
}

}  // namespace attnd::server
