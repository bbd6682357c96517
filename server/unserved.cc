// FindUnserved of request_check.h: the part of the contract that waits for a
// later release, in one place. Serving a field starts with deleting its line.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/request_check.h"

namespace attnd::server {
namespace {

// A value that no release will serve, or one that this one does not.
void CheckRange(bool valid, bool served, absl::string_view field,
                absl::string_view expected, Violations& violations) {
  if (!valid) {
    violations.Add(field, absl::StrCat("expected ", expected));
  } else if (!served) {
    violations.AddUnserved(field);
  }
}

void CheckTensorType(const v1::Tensor& tensor, absl::string_view field,
                     Violations& violations) {
  if (tensor.dtype() == v1::DTYPE_BF16 || tensor.dtype() == v1::DTYPE_F16) {
    violations.AddUnserved(absl::StrCat(field, ".dtype"));
  }
}

void CheckMask(const v1::AttendRequest& request, Violations& violations) {
  const v1::Mask& mask = request.mask();
  // Without times index and time order are the same.
  if (mask.causal() == v1::CAUSALITY_INDEX && request.has_query_time()) {
    violations.AddUnserved("mask.causal");
  }
  if (mask.has_past_keys()) {
    CheckRange(mask.past_keys() >= 0, false, "mask.past_keys", ">= 0",
               violations);
  }
  if (mask.has_future_keys()) {
    CheckRange(mask.future_keys() >= 0, false, "mask.future_keys", ">= 0",
               violations);
  }
  CheckRange(mask.prefix() >= 0, mask.prefix() == 0, "mask.prefix", ">= 0",
             violations);
  const std::pair<bool, absl::string_view> unserved[] = {
      {mask.query_offsets_size() > 0, "mask.query_offsets"},
      {mask.key_offsets_size() > 0, "mask.key_offsets"},
      {!mask.value_channel_mask().empty(), "mask.value_channel_mask"},
      {mask.key_ranges_size() > 0, "mask.key_ranges"},
      {mask.sinks_size() > 0, "mask.sinks"},
  };
  for (const auto& [present, field] : unserved) {
    if (present) violations.AddUnserved(field);
  }
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
        break;
      case v1::OUTPUT_TOP_K:
        wants_top_k = true;
        [[fallthrough]];
      case v1::OUTPUT_KEY_MASS:
      case v1::OUTPUT_ENTROPY:
        violations.AddUnserved("outputs");
        break;
      default:
        violations.Add("outputs", absl::StrCat("entry ", i, " is ",
                                               static_cast<int>(output),
                                               ", expected a value of Output"));
    }
  }
  CheckRange(request.top_k() >= (wants_top_k ? 1 : 0), request.top_k() == 0,
             "top_k", wants_top_k ? ">= 1" : ">= 0", violations);
  const v1::DType dtype = request.output_dtype();
  CheckRange(v1::DType_IsValid(dtype),
             dtype != v1::DTYPE_BF16 && dtype != v1::DTYPE_F16, "output_dtype",
             "a value of DType", violations);
}

}  // namespace

void FindUnserved(const v1::AttendRequest& request, Violations& violations) {
  CheckTensorType(request.query(), "query", violations);
  CheckTensorType(request.key(), "key", violations);
  CheckTensorType(request.value(), "value", violations);
  CheckMask(request, violations);
  CheckTensorType(request.bias(), "bias", violations);
  if (request.bias().layout() == v1::LAYOUT_BLHD) {
    violations.AddUnserved("bias.layout");
  }
  if (request.has_softcap()) {
    CheckRange(request.softcap() > 0 && std::isfinite(request.softcap()), false,
               "softcap", "finite and > 0", violations);
  }
  CheckRange(v1::AttentionKind_IsValid(request.kind()),
             request.kind() != v1::ATTENTION_KIND_LINEAR, "kind",
             "a value of AttentionKind", violations);
  if (request.has_linear()) violations.AddUnserved("linear");
  CheckRange(v1::ComputePrecision_IsValid(request.compute()),
             request.compute() != v1::COMPUTE_PRECISION_BF16, "compute",
             "a value of ComputePrecision", violations);
  const double tolerance = request.prune_tolerance();
  CheckRange(tolerance >= 0 && tolerance < 1, true, "prune_tolerance",
             "0 <= p < 1", violations);
  CheckOutputs(request, violations);
  CheckRange(request.priority() >= -10 && request.priority() <= 10, true,
             "priority", "-10 to 10", violations);
}

}  // namespace attnd::server
