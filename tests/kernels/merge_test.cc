#include "kernels/merge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

// The keys of every item in `parts` random parts, some of them empty; the
// sinks go with the first.
std::vector<ProblemSpec> Split(const ProblemSpec& spec, int64_t parts,
                               Random& random) {
  std::vector<ProblemSpec> out(parts, spec);
  for (int64_t p = 0; p < parts; ++p) {
    out[p].key_validity.assign(spec.batch * spec.keys, 0);
    if (p > 0) out[p].sinks.clear();
  }
  for (int64_t e = 0; e < spec.batch * spec.keys; ++e) {
    if (!spec.key_validity.empty() && spec.key_validity[e] == 0) continue;
    out[random.Integer(0, parts - 1)].key_validity[e] = 1;
  }
  return out;
}

Answer Merge(const std::vector<Answer>& answers, int64_t dim) {
  std::vector<PartialAnswer> parts;
  for (const Answer& answer : answers) {
    parts.push_back({answer.output, answer.lse});
  }
  Answer merged = answers[0];
  MergePartial(parts, dim, absl::MakeSpan(merged.output),
               absl::MakeSpan(merged.lse));
  return merged;
}

TEST(MergePartial, AnySplitOfTheKeysKeepsTheContractOfOnePass) {
  for (uint64_t seed = 1; seed <= (kSanitized ? 20 : 80); ++seed) {
    ProblemSpec spec = RandomProblem(seed, {.pairs = 15'000, .max_rows = 200});
    Random random(seed + 1000);
    spec.query_layout = Layout::kBHLD;
    if (random.Coin()) spec.softcap = 20;
    if (random.Coin()) spec.sinks = random.Normals(spec.query_heads);
    const ReferenceAnswer reference = Reference(spec);
    for (int64_t parts : {int64_t{2}, int64_t{7}, 2 * spec.keys}) {
      if (parts * spec.keys > 3000) continue;
      std::vector<Answer> answers;
      for (const ProblemSpec& part : Split(spec, parts, random)) {
        answers.push_back(RunSpec(part, {.output = true, .lse = true}));
      }
      ASSERT_EQ(Compare(spec, Merge(answers, spec.value_dim), reference), "")
          << parts << " parts\n"
          << spec.Describe();
    }
  }
}

TEST(MergePartial, OnePartIsItself) {
  const std::vector<float> output = {1, 2, 0, 0}, lse = {-700, -INFINITY};
  std::vector<float> merged(4), merged_lse(2);
  MergePartial({{output, lse}}, 2, absl::MakeSpan(merged),
               absl::MakeSpan(merged_lse));
  EXPECT_EQ(merged, output);
  EXPECT_EQ(merged_lse, lse);
}

TEST(MergePartial, ANaNStaysAndHiddenPartsDoNot) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  // A part that saw nothing may hold anything.
  const std::vector<float> a = {kNaN, 5, kNaN}, a_lse = {kNaN, 0, -INFINITY};
  const std::vector<float> b = {1, 7, 3}, b_lse = {2, 0, 4};
  std::vector<float> merged(3), lse(3);
  MergePartial({{a, a_lse}, {b, b_lse}}, 1, absl::MakeSpan(merged),
               absl::MakeSpan(lse));
  EXPECT_TRUE(std::isnan(merged[0]));
  EXPECT_TRUE(std::isnan(lse[0]));
  EXPECT_EQ(merged[1], 6);
  EXPECT_FLOAT_EQ(lse[1], std::log(2.0f));
  EXPECT_EQ(merged[2], 3);
  EXPECT_EQ(lse[2], 4);
}

}  // namespace
}  // namespace attnd::testing
