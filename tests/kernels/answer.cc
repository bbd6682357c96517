#include "tests/kernels/answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "kernels/float16.h"
#include "kernels/gemm.h"

namespace attnd::testing {
namespace {

constexpr float kUnwritten = 1.25e30f;

std::string Differs(absl::string_view what, int64_t row, int64_t element,
                    double expected, double got, double bound) {
  return absl::StrCat(what, " row ", row, " element ", element, ": expected ",
                      expected, ", got ", got, ", error ",
                      std::abs(expected - got), " over ", bound);
}

// One row of one tensor: finite elements within `error`, the others the same.
// Where `loose`, a NaN may stand for any number.
std::string CompareRow(absl::string_view what, int64_t row, const float* answer,
                       const double* reference, int64_t count, double error,
                       bool loose, DType dtype = DType::kF32) {
  for (int64_t c = 0; c < count; ++c) {
    const double expected = reference[c], got = answer[c];
    const double bound = error + HalfUlp(dtype, std::abs(expected) + error);
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

double HalfUlp(DType dtype, double value) {
  if (dtype == DType::kF32 || !(std::abs(value) > 0)) return 0;
  const bool bf16 = dtype == DType::kBF16;
  const int exponent = std::max(std::ilogb(value), bf16 ? -126 : -14);
  return std::ldexp(1.0, exponent - (bf16 ? 8 : 11));
}

Answer UnwrittenAnswer(const Plan& plan) {
  const OutputSet& wanted = plan.problem().outputs;
  Answer answer;
  const bool half = plan.problem().output_dtype != DType::kF32;
  if (wanted.output && half) {
    answer.halves.assign(plan.output_elements(), 0x7bcd);
  } else if (wanted.output) {
    answer.output.assign(plan.output_elements(), kUnwritten);
  }
  if (wanted.entropy) answer.entropy.assign(plan.lse_elements(), kUnwritten);
  if (wanted.key_mass) {
    answer.key_mass.assign(plan.key_mass_elements(), kUnwritten);
    answer.key_sums.assign(plan.key_mass_elements(), 0);
  }
  if (wanted.top_k > 0) {
    answer.top_rows.assign(plan.top_elements(), -7);
    answer.top_weights.assign(plan.top_elements(), kUnwritten);
    if (plan.problem().key_time.kind() != TimeAxis::Kind::kPositions) {
      answer.top_times.assign(plan.top_elements(), -7);
    }
  }
  if (wanted.lse) answer.lse.assign(plan.lse_elements(), kUnwritten);
  if (wanted.scores) answer.scores.assign(plan.score_elements(), kUnwritten);
  if (wanted.weights) answer.weights.assign(plan.score_elements(), kUnwritten);
  return answer;
}

OutputBuffers BuffersOf(Answer& answer) {
  return {.output = absl::MakeSpan(answer.output),
          .halves = absl::MakeSpan(answer.halves),
          .lse = absl::MakeSpan(answer.lse),
          .scores = absl::MakeSpan(answer.scores),
          .weights = absl::MakeSpan(answer.weights),
          .entropy = absl::MakeSpan(answer.entropy),
          .top_rows = absl::MakeSpan(answer.top_rows),
          .top_weights = absl::MakeSpan(answer.top_weights),
          .top_times = absl::MakeSpan(answer.top_times),
          .key_mass = absl::MakeSpan(answer.key_mass),
          .key_sums = absl::MakeSpan(answer.key_sums)};
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
  if (!answer.halves.empty()) {
    answer.output.resize(answer.halves.size());
    FloatsFromHalves(problem.output_dtype,
                     reinterpret_cast<const char*>(answer.halves.data()),
                     static_cast<int64_t>(answer.halves.size()),
                     answer.output.data());
  }
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

Bounds ContractOf(const ProblemSpec& spec) {
  if (!spec.bf16_compute || !TileGemm::NativeBf16()) return {};
  return {.output = kBf16OutputError, .score = kBf16ScoreError};
}

std::string Compare(const ProblemSpec& spec, const Answer& answer,
                    const ReferenceAnswer& reference, double slack) {
  const Bounds contract = ContractOf(spec);
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
                       contract.output * growth * reference.value_size[r],
                       loose, spec.output_dtype);
    }
    const double bound = contract.score * growth;
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
                       &reference.weights[first], spec.keys, bound, false);
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
  if (why.empty()) why = CompareBytes("entropy", a.entropy, b.entropy);
  if (why.empty()) why = CompareBytes("key_mass", a.key_mass, b.key_mass);
  if (why.empty()) why = CompareBytes("top", a.top_weights, b.top_weights);
  if (why.empty() && a.top_rows != b.top_rows) why = "top_rows";
  return why;
}

std::string Judge(const ProblemSpec& spec, double slack) {
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
  const std::string why = Compare(spec, *answer, *reference, slack);
  return why.empty() ? why : absl::StrCat(why, "\n", spec.Describe());
}

}  // namespace attnd::testing
