#include "tests/kernels/encoded_judge.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/answer_sums.h"
#include "tests/kernels/encoding_families.h"

namespace attnd::testing {
namespace {

// One term that is all of S, as decays leave it, is the worst case of bf16
// (attention.h): (e^(S/64) - 1 + 1/128) M, or 2 M, is less than so many times
// the contract for every S.
constexpr double kBf16Slack = 50;

double SlackOf(const ProblemSpec& spec, const Encoder& encoder) {
  double condition = 1;
  const int64_t heads = encoder.one_generator() ? 1 : spec.kv_heads;
  for (int64_t g = 0; g < heads; ++g) {
    condition = std::max(condition, encoder.head(g).generator().condition());
  }
  return condition * Slack(*spec.encoding);
}

// Rows lose no more than the bound that is reported, and that is no more than
// what was tolerated.
std::string JudgePruned(const ProblemSpec& spec, AttentionProblem problem,
                        const ReferenceAnswer& reference, double slack,
                        double* lost_mass) {
  problem.outputs = {.output = true, .lse = true};
  const absl::StatusOr<Plan> plan = Plan::Make(problem);
  if (!plan.ok()) return plan.status().ToString();
  Answer answer = UnwrittenAnswer(*plan);
  UnitStats stats;
  const absl::Status status =
      RunAll(*plan, ThisThreadsWorkspace(), BuffersOf(answer), &stats);
  if (!status.ok()) return status.ToString();
  const double lost = stats.lost_mass_bound;
  *lost_mass = lost;
  if (!(lost <= spec.prune_tolerance)) {
    return absl::StrCat("lost mass ", lost, " of ", spec.prune_tolerance);
  }
  for (size_t r = 0; r < reference.lse.size(); ++r) {
    if (reference.lse[r] == answer.lse[r]) continue;
    const double missing = reference.lse[r] - answer.lse[r];
    const double rounding =
        slack * kScoreError * std::max(1.0, reference.logit_size[r] / 8);
    if (missing >= -rounding && missing <= -std::log1p(-lost) + rounding) {
      continue;
    }
    return absl::StrCat("lse of row ", r, ": ", answer.lse[r], ", expected ",
                        reference.lse[r], " less at most ", lost, " of it");
  }
  if (!answer.halves.empty()) return "";
  const std::vector<float> output = OutputBHLD(spec, answer);
  for (size_t e = 0; e < output.size(); ++e) {
    const int64_t r = static_cast<int64_t>(e) / spec.value_dim;
    const double rounding =
        slack * kOutputError * std::max(1.0, reference.logit_size[r] / 8);
    if (std::abs(output[e] - reference.output[e]) <=
        (rounding + 2 * lost) * reference.value_size[r]) {
      continue;
    }
    return absl::StrCat("output of row ", r, ": ", output[e], ", expected ",
                        reference.output[e], " within ", 2 * lost, " of ",
                        reference.value_size[r]);
  }
  return "";
}

}  // namespace

std::string JudgeEncoded(const ProblemSpec& spec, double slack,
                         double* lost_mass) {
  const absl::StatusOr<OwnedProblem> owned = OwnedProblem::Build(spec);
  if (!owned.ok()) return owned.status().ToString();
  AttentionProblem problem = owned->problem();
  problem.prune_tolerance = 0;
  const bool bf16 = spec.bf16_compute && ContractOf(spec).output > kOutputError;
  slack *= SlackOf(spec, *problem.encoder) * (bf16 ? kBf16Slack : 1);
  const absl::StatusOr<ReferenceAnswer> reference = ReferenceAttention(problem);
  if (!reference.ok()) return reference.status().ToString();
  std::string why;
  const int64_t top = 1 + static_cast<int64_t>(spec.seed % 5);
  // The output alone takes another way than scores and lse.
  for (const OutputSet& outputs :
       {kAllOutputs, OutputSet{.output = true},
        OutputSet{
            .output = true, .entropy = true, .key_mass = true, .top_k = top}}) {
    const absl::StatusOr<Answer> answer = Run(problem, outputs);
    if (!answer.ok()) {
      return absl::StrCat(answer.status().ToString(), "\n", spec.Describe());
    }
    why = Compare(spec, *answer, *reference, slack);
    if (why.empty() && outputs.key_mass && !bf16) {
      why = CompareSums(spec, *answer, *reference, top, slack);
    }
    if (!why.empty()) {
      return absl::StrCat(outputs.scores ? "" : "without scores: ", why, "\n",
                          spec.Describe());
    }
  }
  if (spec.prune_tolerance == 0 || bf16) return "";
  problem.prune_tolerance = spec.prune_tolerance;
  double lost = 0;
  why = JudgePruned(spec, problem, *reference, slack, &lost);
  if (lost_mass != nullptr) *lost_mass = lost;
  return why.empty() ? why : absl::StrCat(why, "\n", spec.Describe());
}

}  // namespace attnd::testing
