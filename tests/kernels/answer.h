// Runs problems through the kernels and judges what they answer.
#ifndef ATTND_TESTS_KERNELS_ANSWER_H_
#define ATTND_TESTS_KERNELS_ANSWER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/attention.h"
#include "kernels/plan.h"
#include "kernels/reference.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

// What the kernels wrote; `output` in the query's layout.
struct Answer {
  std::vector<float> output, lse, scores, weights;  // 16-bit output converted
  std::vector<float> entropy = {}, key_mass = {}, top_weights = {};
  std::vector<int64_t> top_rows = {}, top_times = {};
  std::vector<uint16_t> halves = {};  // the output's bits where it has 16
  std::vector<uint64_t> key_sums = {};
};

inline constexpr OutputSet kAllOutputs = {
    .output = true, .lse = true, .scores = true, .weights = true};
// With those that need no matrix.
inline constexpr OutputSet kEverything = {.output = true,
                                          .lse = true,
                                          .scores = true,
                                          .weights = true,
                                          .entropy = true,
                                          .key_mass = true,
                                          .top_k = 2};

// Buffers of the plan's sizes, filled with a number that no kernel writes.
Answer UnwrittenAnswer(const Plan& plan);
OutputBuffers BuffersOf(Answer& answer);

// One workspace of the calling thread, made at first use.
Workspace& ThisThreadsWorkspace();

// Plans and runs with the outputs wanted.
absl::StatusOr<Answer> Run(const AttentionProblem& problem,
                           const OutputSet& outputs = kAllOutputs);
// Builds, plans and runs; a failure to do so fails the test and gives an empty
// answer.
Answer RunSpec(const ProblemSpec& spec, const OutputSet& outputs = kAllOutputs);
ReferenceAnswer Reference(const ProblemSpec& spec);

// The answer's output in BHLD order.
std::vector<float> OutputBHLD(const ProblemSpec& spec, const Answer& answer);

// What an answer may differ by: a row whose logit terms sum to S and whose
// values are at most M.
struct Bounds {
  double output = kOutputError;  // * max(1, S / 8) * M
  double score = kScoreError;    // * max(1, S / 8): lse, scores, weights
};

// The accuracy contract of what the problem asks for, and what runs here.
Bounds ContractOf(const ProblemSpec& spec);

// Half a unit in the last place of a value; 0 in f32, whose bounds have room.
double HalfUlp(DType dtype, double value);

// "" when the answer keeps the accuracy contract of attention.h against the
// reference (`slack` times it) and is NaN and infinite in the same places, else
// the first element that does not. Empty tensors are not looked at.
std::string Compare(const ProblemSpec& spec, const Answer& answer,
                    const ReferenceAnswer& reference, double slack = 1);

// "" when all tensors have the same bytes, else the first difference.
std::string CompareBits(const Answer& a, const Answer& b);

// Runs, computes the reference, compares; "" or a message with the description.
std::string Judge(const ProblemSpec& spec, double slack = 1);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_ANSWER_H_
