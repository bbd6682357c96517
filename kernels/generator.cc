#include "kernels/generator.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/basis.h"
#include "kernels/block_checks.h"
#include "kernels/block_resolution.h"
#include "kernels/direct_sum_exp.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

double LargestEntry(const std::vector<double>& a) {
  double largest = 0;
  for (double x : a) largest = std::max(largest, std::abs(x));
  return largest;
}

}  // namespace

std::vector<double> PublishedSlopes(int heads, double bias_max) {
  int power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  for (int h = 0; h < heads; ++h) {
    const double exponent = h < power
                                ? bias_max * (h + 1) / power
                                : bias_max / 2 * (2 * (h - power) + 1) / power;
    slopes.push_back(std::exp2(-exponent));
  }
  return slopes;
}

absl::StatusOr<Generator> Generator::Make(const std::vector<Block>& blocks,
                                          int head_dim, double length,
                                          const std::vector<double>& basis,
                                          const std::atomic<bool>* stop) {
  absl::Status status = CheckBlocks(blocks, "blocks");
  if (!status.ok()) return status;
  absl::StatusOr<ResolvedBlocks> resolved =
      ResolveBlocks(blocks, head_dim, length, stop);
  if (!resolved.ok()) return resolved.status();
  Generator generator;
  generator.sum_ = std::move(resolved->sum);
  generator.basis_ = std::move(resolved->basis);
  generator.basis_inverse_ = std::move(resolved->basis_inverse);
  if (!basis.empty() && !generator.relative()) {
    return Refuse(
        "basis", "given",
        "none around blocks whose scores do not depend on lags alone");
  }
  status = generator.FoldBasis(basis);
  if (!status.ok()) return status;
  return generator;
}

absl::Status Generator::FoldBasis(const std::vector<double>& basis) {
  const int n = dim();
  if (!basis.empty()) {
    absl::Status status =
        CheckCount("basis.matrix", basis.size(), static_cast<size_t>(n) * n,
                   "head_dim * head_dim");
    if (status.ok()) status = CheckAllFinite("basis.matrix", basis);
    if (!status.ok()) return status;
    const InverseBasis outer = Invert(basis, n);
    if (!(outer.condition <= kMaxCondition)) {
      return Refuse("basis.matrix",
                    absl::StrCat("condition number ", outer.condition),
                    absl::StrCat("at most ", kMaxCondition));
    }
    const bool alone = basis_.empty();
    basis_ = alone ? basis : MatrixProduct(basis, basis_, n);
    basis_inverse_ =
        alone ? outer.inverse : MatrixProduct(basis_inverse_, outer.inverse, n);
  }
  if (basis_.empty()) return absl::OkStatus();
  condition_ = ConditionNumber(basis_, n);
  if (condition_ <= kMaxCondition) return absl::OkStatus();
  return Refuse(
      "blocks",
      absl::StrCat("condition number ", condition_,
                   " of the basis in which dense blocks are diagonal"),
      absl::StrCat("at most ", kMaxCondition));
}

std::vector<Drive> Generator::drives() const {
  std::vector<Drive> drives;
  for (const Plane& plane : planes()) {
    drives.push_back(plane.drive);
    for (const PlaneTerm& term : plane.further) drives.push_back(term.drive);
  }
  for (const Chain& chain : chains()) drives.push_back(chain.drive);
  for (const SmallBlock& block : small_blocks()) drives.push_back(block.drive);
  for (const FreeRotation& free : free_rotations()) {
    drives.insert(drives.end(), free.drives.begin(), free.drives.end());
  }
  std::sort(drives.begin(), drives.end());
  drives.erase(std::unique(drives.begin(), drives.end()), drives.end());
  return drives;
}

bool Generator::one_sided() const {
  return !small_blocks().empty() ||
         std::any_of(chains().begin(), chains().end(), [](const Chain& chain) {
           return chain.rate > 0 || chain.channels.size() > 1;
         });
}

bool Generator::bounded() const {
  return std::all_of(chains().begin(), chains().end(),
                     [](const Chain& chain) {
                       return chain.rate > 0 || chain.channels.size() == 1;
                     }) &&
         std::all_of(small_blocks().begin(), small_blocks().end(),
                     [](const SmallBlock& block) { return block.rate > 0; });
}

std::vector<double> Generator::Exp(double lag, bool absolute_lag) const {
  return Exp([lag](const Drive&) { return lag; }, {}, absolute_lag);
}

std::vector<double> Generator::Exp(absl::FunctionRef<double(const Drive&)> lag,
                                   absl::Span<const double> angles,
                                   bool absolute_lag) const {
  const int n = dim();
  DirectSumExp exp = attnd::Exp(sum_, lag, angles, absolute_lag);
  const std::vector<double>& scale = channel_scale();
  for (int i = 0; !scale.empty() && i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      exp.value[i * n + j] *= scale[i] * scale[j];
      exp.minus_identity[i * n + j] = exp.value[i * n + j] - (i == j);
    }
  }
  if (basis_.empty()) return exp.value;
  if (LargestEntry(exp.minus_identity) > 0.5) {
    return MatrixProduct(MatrixProduct(basis_, exp.value, n), basis_inverse_,
                         n);
  }
  // Near lag 0: exactly the identity there, whatever the rounding of the basis.
  std::vector<double> result = MatrixProduct(
      MatrixProduct(basis_, exp.minus_identity, n), basis_inverse_, n);
  for (int c = 0; c < n; ++c) result[c * n + c] += 1;
  return result;
}

}  // namespace attnd
