#include "kernels/encoding_spec.h"

#include <cmath>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/absolute_checks.h"
#include "kernels/basis.h"
#include "kernels/bias_checks.h"
#include "kernels/block_checks.h"
#include "kernels/dense.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

// Numbers of all blocks, and the eigenvalues of dense ones.
absl::Status CheckGenerator(const std::vector<Block>& blocks,
                            const std::string& path,
                            const std::atomic<bool>* stop) {
  absl::Status status = CheckBlocks(blocks, path);
  if (!status.ok()) return status;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto* dense = std::get_if<DenseMatrixBlock>(&blocks[i].kind);
    if (dense == nullptr) continue;
    status = SplitDense(dense->matrix, dense->dim,
                        absl::StrCat(path, "[", i, "].dense.matrix"), stop)
                 .status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckBasis(const std::vector<double>& basis) {
  if (basis.empty()) return absl::OkStatus();
  const int n = static_cast<int>(std::lround(std::sqrt(basis.size())));
  if (static_cast<size_t>(n) * n != basis.size()) {
    return Refuse("basis.matrix", absl::StrCat(basis.size(), " entries"),
                  "a square number");
  }
  absl::Status status = CheckAllFinite("basis.matrix", basis);
  if (!status.ok()) return status;
  const double condition = ConditionNumber(basis, n);
  if (condition <= kMaxCondition) return absl::OkStatus();
  return Refuse("basis.matrix", absl::StrCat("condition number ", condition),
                absl::StrCat("at most ", kMaxCondition));
}

absl::Status CheckUnits(const EncodingSpec& spec) {
  if (spec.unit_ns < 0) return Refuse("time_unit", spec.unit_ns, ">= 0 ns");
  for (size_t i = 0; i < spec.coordinate_unit_ns.size(); ++i) {
    if (spec.coordinate_unit_ns[i] >= 0) continue;
    return Refuse(absl::StrCat("coordinate_units[", i, "]"),
                  spec.coordinate_unit_ns[i], ">= 0 ns");
  }
  return absl::OkStatus();
}

absl::Status CheckParts(const EncodingSpec& spec) {
  absl::Status status;
  for (size_t i = 0; status.ok() && i < spec.biases.size(); ++i) {
    status = CheckBiasTerm(spec.biases[i], absl::StrCat("biases[", i, "]"));
  }
  for (size_t i = 0; status.ok() && i < spec.absolutes.size(); ++i) {
    status = CheckAbsolutePart(spec.absolutes[i],
                               absl::StrCat("absolutes[", i, "]"));
  }
  if (status.ok() && spec.temperature.has_value()) {
    status = CheckTemperature(*spec.temperature, "query_temperature");
  }
  return status;
}

}  // namespace

absl::Status Validate(const EncodingSpec& spec, const std::atomic<bool>* stop) {
  if (!spec.blocks.empty() && !spec.per_head.empty()) {
    return Refuse("per_head", absl::StrCat(spec.per_head.size(), " heads"),
                  "none where blocks is set");
  }
  absl::Status status = CheckGenerator(spec.blocks, "blocks", stop);
  for (size_t h = 0; status.ok() && h < spec.per_head.size(); ++h) {
    status = CheckGenerator(spec.per_head[h],
                            absl::StrCat("per_head[", h, "].blocks"), stop);
  }
  if (status.ok()) status = CheckBasis(spec.basis);
  if (status.ok()) status = CheckParts(spec);
  if (status.ok()) status = CheckUnits(spec);
  return status;
}

}  // namespace attnd
