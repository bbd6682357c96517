#include "kernels/encoding_spec.h"

#include "absl/strings/str_cat.h"
#include "kernels/block_checks.h"
#include "kernels/field_checks.h"

namespace attnd {

absl::Status Validate(const EncodingSpec& spec) {
  absl::Status status = CheckBlocks(spec.blocks, "blocks");
  for (size_t h = 0; status.ok() && h < spec.per_head.size(); ++h) {
    status =
        CheckBlocks(spec.per_head[h], absl::StrCat("per_head[", h, "].blocks"));
  }
  if (!status.ok()) return status;
  if (!spec.blocks.empty() && !spec.per_head.empty()) {
    return Refuse("per_head", absl::StrCat(spec.per_head.size(), " heads"),
                  "none where blocks is set");
  }
  if (spec.unit_ns < 0) return Refuse("time_unit", spec.unit_ns, ">= 0 ns");
  return absl::OkStatus();
}

}  // namespace attnd
