#include "tests/kernels/answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"

namespace attnd::testing {
namespace {

constexpr float kUnwritten = 1.25e30f;

// Scores and lse hold one f32 sum of `dim` products, whose error grows with the
// root of their number; measured at dim 128: 2.9 times kScoreError where
// queries and keys are aligned, so that no partial sum is small.
double DotGrowth(int64_t dim) {
  return std::max(1.0, std::sqrt(static_cast<double>(dim)) / 2);
}

std::string Differs(absl::string_view what, int64_t row, int64_t element,
                    double expected, double got, double bound) {
  return absl::StrCat(what, " row ", row, " element ", element, ": expected ",
                      expected, ", got ", got, ", error ",
                      std::abs(expected - got), " over ", bound);
}

// One row of one tensor: finite elements within `bound`, the others the same.
// Where `loose`, a NaN may stand for any number.
std::string CompareRow(absl::string_view what, int64_t row, const float* answer,
                       const double* reference, int64_t count, double bound,
                       bool loose) {
  for (int64_t c = 0; c < count; ++c) {
    const double expected = reference[c], got = answer[c];
    if (std::isnan(expected) ? std::isnan(got)
        : loose && std::isnan(got) && std::isfinite(expected)
            ? true
            : expected == got || std::abs(expected - got) <= bound) {
      continue;
    }
    return Differs(what, row, c, expected, got, bound);
  }
  return "";
}

std::string CompareBytes(absl::string_view what, const std::vector<float>& a,
                         const std::vector<float>& b) {
  if (a.size() != b.size()) {
    return absl::StrCat(what, ": ", a.size(), " and ", b.size(), " elements");
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return absl::StrCat(what, " element ", i, ": ", a[i], " and ", b[i],
                          " differ in bits");
    }
  }
  return "";
}

}  // namespace

Answer UnwrittenAnswer(const Plan& plan) {
  const OutputSet& wanted = plan.problem().outputs;
  Answer answer;
  if (wanted.output) answer.output.assign(plan.output_elements(), kUnwritten);
  if (wanted.lse) answer.lse.assign(plan.lse_elements(), kUnwritten);
  if (wanted.scores) answer.scores.assign(plan.score_elements(), kUnwritten);
  if (wanted.weights) answer.weights.assign(plan.score_elements(), kUnwritten);
  return answer;
}

OutputBuffers BuffersOf(Answer& answer) {
  return {.output = absl::MakeSpan(answer.output),
          .lse = absl::MakeSpan(answer.lse),
          .scores = absl::MakeSpan(answer.scores),
          .weights = absl::MakeSpan(answer.weights)};
}

Workspace& ThisThreadsWorkspace() {
  // Lives as long as the process.
  thread_local Workspace* const workspace =
      Workspace::Create().value().release();
  return *workspace;
}

absl::StatusOr<Answer> Run(const AttentionProblem& problem,
                           const OutputSet& outputs) {
  AttentionProblem wanted = problem;
  wanted.outputs = outputs;
  absl::StatusOr<Plan> plan = Plan::Make(wanted);
  if (!plan.ok()) return plan.status();
  Answer answer = UnwrittenAnswer(*plan);
  absl::Status status =
      RunAll(*plan, ThisThreadsWorkspace(), BuffersOf(answer));
  if (!status.ok()) return status;
  return answer;
}

Answer RunSpec(const ProblemSpec& spec, const OutputSet& outputs) {
  const absl::StatusOr<OwnedProblem> owned = OwnedProblem::Build(spec);
  if (!owned.ok()) {
    ADD_FAILURE() << owned.status() << "\n" << spec.Describe();
    return {};
  }
  absl::StatusOr<Answer> answer = Run(owned->problem(), outputs);
  if (!answer.ok()) {
    ADD_FAILURE() << answer.status() << "\n" << spec.Describe();
    return {};
  }
  return *std::move(answer);
}

ReferenceAnswer Reference(const ProblemSpec& spec) {
  const absl::StatusOr<OwnedProblem> owned = OwnedProblem::Build(spec);
  if (!owned.ok()) {
    ADD_FAILURE() << owned.status() << "\n" << spec.Describe();
    return {};
  }
  absl::StatusOr<ReferenceAnswer> answer = ReferenceAttention(owned->problem());
  if (!answer.ok()) {
    ADD_FAILURE() << answer.status() << "\n" << spec.Describe();
    return {};
  }
  return *std::move(answer);
}

std::vector<float> OutputBHLD(const ProblemSpec& spec, const Answer& answer) {
  if (spec.query_layout == Layout::kBHLD) return answer.output;
  std::vector<float> out;
  out.reserve(answer.output.size());
  for (int64_t b = 0; b < spec.batch; ++b) {
    for (int64_t h = 0; h < spec.query_heads; ++h) {
      for (int64_t i = 0; i < spec.queries; ++i) {
        const int64_t row = (b * spec.queries + i) * spec.query_heads + h;
        const auto from = answer.output.begin() + row * spec.value_dim;
        out.insert(out.end(), from, from + spec.value_dim);
      }
    }
  }
  return out;
}

std::string Compare(const ProblemSpec& spec, const Answer& answer,
                    const ReferenceAnswer& reference, double slack) {
  const auto rows = static_cast<int64_t>(reference.lse.size());
  const std::vector<float> output =
      answer.output.empty() ? answer.output : OutputBHLD(spec, answer);
  for (int64_t r = 0; r < rows; ++r) {
    const bool broken = std::isnan(reference.lse[r]);
    const double growth = slack * std::max(1.0, reference.logit_size[r] / 8);
    std::string why;
    if (!output.empty()) {
      const double* expected = &reference.output[r * spec.value_dim];
      const bool loose = std::any_of(expected, expected + spec.value_dim,
                                     [](double v) { return std::isnan(v); });
      why = CompareRow("output", r, &output[r * spec.value_dim], expected,
                       spec.value_dim,
                       kOutputError * growth * reference.value_size[r], loose);
    }
    const double bound = kScoreError * growth * DotGrowth(spec.dim);
    if (why.empty() && !answer.lse.empty()) {
      why = CompareRow("lse", r, &answer.lse[r], &reference.lse[r], 1, bound,
                       false);
    }
    const int64_t first = r * spec.keys;
    if (why.empty() && !answer.scores.empty()) {
      why = CompareRow("scores", r, &answer.scores[first],
                       &reference.scores[first], spec.keys, bound, broken);
    }
    if (why.empty() && !answer.weights.empty()) {
      why = CompareRow("weights", r, &answer.weights[first],
                       &reference.weights[first], spec.keys,
                       kScoreError * growth, false);
    }
    if (!why.empty()) return why;
  }
  return "";
}

std::string CompareBits(const Answer& a, const Answer& b) {
  std::string why = CompareBytes("output", a.output, b.output);
  if (why.empty()) why = CompareBytes("lse", a.lse, b.lse);
  if (why.empty()) why = CompareBytes("scores", a.scores, b.scores);
  if (why.empty()) why = CompareBytes("weights", a.weights, b.weights);
  return why;
}

std::string Judge(const ProblemSpec& spec) {
  const absl::StatusOr<OwnedProblem> owned = OwnedProblem::Build(spec);
  if (!owned.ok()) {
    return absl::StrCat(owned.status().ToString(), "\n", spec.Describe());
  }
  const absl::StatusOr<Answer> answer = Run(owned->problem());
  if (!answer.ok()) {
    return absl::StrCat(answer.status().ToString(), "\n", spec.Describe());
  }
  const absl::StatusOr<ReferenceAnswer> reference =
      ReferenceAttention(owned->problem());
  if (!reference.ok()) return reference.status().ToString();
  const std::string why = Compare(spec, *answer, *reference);
  return why.empty() ? why : absl::StrCat(why, "\n", spec.Describe());
}

}  // namespace attnd::testing
