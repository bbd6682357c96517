// CheckOptions of request_check.h: what a request says beside its tensors,
// times and masks.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/request_check.h"

namespace attnd::server {
namespace {

void Check(bool valid, absl::string_view field, absl::string_view expected,
           Violations& violations) {
  if (!valid) violations.Add(field, absl::StrCat("expected ", expected));
}

void CheckOutputs(const v1::AttendRequest& request, Violations& violations) {
  bool wants_top_k = false;
  for (int i = 0; i < request.outputs_size(); ++i) {
    const v1::Output output = request.outputs(i);
    switch (output) {
      case v1::OUTPUT_OUTPUT:
      case v1::OUTPUT_LSE:
      case v1::OUTPUT_SCORES:
      case v1::OUTPUT_WEIGHTS:
      case v1::OUTPUT_KEY_MASS:
      case v1::OUTPUT_ENTROPY:
        break;
      case v1::OUTPUT_TOP_K:
        wants_top_k = true;
        break;
      default:
        violations.Add("outputs", absl::StrCat("entry ", i, " is ",
                                               static_cast<int>(output),
                                               ", expected a value of Output"));
    }
  }
  Check(request.top_k() >= (wants_top_k ? 1 : 0), "top_k",
        wants_top_k ? ">= 1" : ">= 0", violations);
  Check(v1::DType_IsValid(request.output_dtype()), "output_dtype",
        "a value of DType", violations);
}

void CheckLinear(const v1::AttendRequest& request, Violations& violations) {
  if (!request.has_linear()) return;
  if (request.kind() != v1::ATTENTION_KIND_LINEAR) {
    violations.Add("linear", "expected kind LINEAR beside it");
  }
  const v1::LinearOptions& linear = request.linear();
  Check(v1::LinearOptions::Normaliser_IsValid(linear.normaliser()),
        "linear.normaliser", "a value of Normaliser", violations);
  Check(v1::LinearOptions::FeatureMap_IsValid(linear.feature_map()),
        "linear.feature_map", "a value of FeatureMap", violations);
  Check(v1::LinearOptions::InputRule_IsValid(linear.input_rule()),
        "linear.input_rule", "a value of InputRule", violations);
}

}  // namespace

void CheckOptions(const v1::AttendRequest& request, Violations& violations) {
  if (request.has_softcap()) {
    Check(request.softcap() > 0 && std::isfinite(request.softcap()), "softcap",
          "finite and > 0", violations);
  }
  Check(v1::AttentionKind_IsValid(request.kind()), "kind",
        "a value of AttentionKind", violations);
  CheckLinear(request, violations);
  Check(v1::ComputePrecision_IsValid(request.compute()), "compute",
        "a value of ComputePrecision", violations);
  const double tolerance = request.prune_tolerance();
  Check(tolerance >= 0 && tolerance < 1, "prune_tolerance", "0 <= p < 1",
        violations);
  CheckOutputs(request, violations);
  Check(request.priority() >= -10 && request.priority() <= 10, "priority",
        "-10 to 10", violations);
}

}  // namespace attnd::server
