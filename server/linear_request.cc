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

// The states of a request, or their references alone if there are several.
void ReadStates(const v1::LinearOptions& wire, const LinearStateShape& shape,
                Violations& violations, DecodedLinear& out) {
  const auto read = [&](const v1::LinearState& state,
                        const std::string& field) {
    out.parts.push_back(
        ReadLinearState(state, shape, out.state_hash, field, violations));
  };
  if (wire.has_initial_state()) {
    read(wire.initial_state(), "linear.initial_state");
  }
  for (int i = 0; i < wire.merge_states_size() && violations.empty(); ++i) {
    read(wire.merge_states(i), absl::StrCat("linear.merge_states[", i, "]"));
  }
  if (out.parts.empty() || !violations.empty()) return;
  if (out.parts.size() == 1) {
    out.initial = std::move(out.parts[0]);
    out.parts.clear();
    return;
  }
  auto merged = MergedReferences(PartsOf(out));
  if (!merged.ok()) {
    violations.AddStatus(merged.status(), "", "linear.merge_states");
    return;
  }
  out.initial = *std::move(merged);
}

}  // namespace

std::vector<const LinearState*> PartsOf(const DecodedLinear& linear) {
  std::vector<const LinearState*> parts;
  for (const LinearState& part : linear.parts) parts.push_back(&part);
  return parts;
}

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
  ReadStates(wire, shape, violations, out);
  if (wire.merge_states_size() > 0 && !request.has_key_time()) {
    violations.Add("linear.merge_states",
                   "segments without times have no common clock to merge on");
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
