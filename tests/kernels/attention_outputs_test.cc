// Entropy, weight received by keys, and the largest weights: against the
// weights of the double reference, alone and together, in any order of units.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/answer_sums.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"
#include "tests/kernels/unit_order.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

constexpr RandomLimits kLimits = {.pairs = 20'000, .max_rows = 300};
constexpr int kTrials = kSanitized ? 30 : 150;

TEST(AttentionOutputs, RandomProblemsKeepTheContract) {
  for (uint64_t seed = 1; seed <= kTrials; ++seed) {
    const ProblemSpec spec = RandomMaskedProblem(seed, kLimits);
    const ReferenceAnswer reference = Reference(spec);
    Random random(seed);
    const int64_t top = random.Integer(1, random.Coin() ? 5 : spec.keys + 3);
    const Answer answer = RunSpec(
        spec,
        {.output = true, .entropy = true, .key_mass = true, .top_k = top});
    ASSERT_EQ(Compare(spec, answer, reference), "") << spec.Describe();
    ASSERT_EQ(CompareSums(spec, answer, reference, top), "") << spec.Describe();
  }
}

// Scores and lse are summed more exactly than the rest needs: requests with
// them, and requests without, agree among themselves.
TEST(AttentionOutputs, EachAloneHasTheBytesOfAllTogether) {
  for (uint64_t seed = 500; seed < 500 + kTrials / 5; ++seed) {
    const ProblemSpec spec = RandomMaskedProblem(seed, kLimits);
    for (const bool exact : {false, true}) {
      const Answer all = RunSpec(spec, {.output = true,
                                        .lse = exact,
                                        .scores = exact,
                                        .weights = true,
                                        .entropy = true,
                                        .key_mass = true,
                                        .top_k = 3});
      const auto alone = [&](OutputSet outputs) {
        outputs.output = false;
        outputs.lse = exact;
        return RunSpec(spec, outputs);
      };
      Answer parts;
      parts.output = RunSpec(spec, {.output = true, .lse = exact}).output;
      parts.lse = alone({}).lse;
      if (exact) parts.scores = alone({.scores = true}).scores;
      parts.weights = alone({.weights = true}).weights;
      parts.entropy = alone({.entropy = true}).entropy;
      parts.key_mass = alone({.key_mass = true}).key_mass;
      const Answer top = alone({.top_k = 3});
      parts.top_rows = top.top_rows;
      parts.top_weights = top.top_weights;
      ASSERT_EQ(CompareBits(all, parts), "") << spec.Describe();
    }
  }
}

// Equal logits everywhere.
ProblemSpec Even(int64_t queries, int64_t keys) {
  ProblemSpec spec;
  spec.queries = queries;
  spec.keys = keys;
  spec.dim = spec.value_dim = 1;
  spec.query.assign(queries, 0);
  spec.key.assign(keys, 1);
  spec.value.assign(keys, 1);
  return spec;
}

TEST(AttentionOutputs, EvenWeightsInClosedForm) {
  for (int64_t keys : {1, 5, 64, 300, 8192}) {
    ProblemSpec spec = Even(130, keys);
    const Answer answer = RunSpec(
        spec, {.output = false, .entropy = true, .key_mass = true, .top_k = 4});
    for (float h : answer.entropy) ASSERT_NEAR(h, std::log(keys), 1e-5);
    for (float m : answer.key_mass) ASSERT_NEAR(m * keys, 130, 1e-3);
    for (int64_t r = 0; r < 130; ++r) {
      for (int64_t k = 0; k < 4; ++k) {
        // Ties: the smaller index first.
        ASSERT_EQ(answer.top_rows[r * 4 + k], k < keys ? k : -1);
      }
    }
  }
}

// Logits whose last place is worth e^64, under a bias that the softmax adds on
// its way: weights are shares of what it summed, however large.
TEST(AttentionOutputs, WeightsOfHugeLogitsUnderABiasAreShares) {
  for (const float size : {1e3f, 1e6f, 1e9f}) {
    Random random(3);
    ProblemSpec spec;
    spec.queries = 40;
    spec.keys = 200;
    spec.dim = 8;
    spec.Fill(random);
    spec.scale = size;
    spec.encoding.emplace();
    spec.encoding->biases = {AlibiTerm{.slopes = {0.7}, .two_sided = true}};
    const Answer answer = RunSpec(
        spec, {.output = true, .weights = true, .key_mass = true, .top_k = 3});
    double mass = 0;
    for (const float m : answer.key_mass) mass += m;
    EXPECT_NEAR(mass, 40, 1e-3) << size;
    for (int64_t r = 0; r < 40; ++r) {
      const auto first = answer.weights.begin() + r * spec.keys;
      const auto last = first + spec.keys;
      EXPECT_NEAR(std::accumulate(first, last, 0.0), 1, 1e-5) << size;
      EXPECT_EQ(answer.top_weights[r * 3], *std::max_element(first, last))
          << size;
    }
  }
}

TEST(AttentionOutputs, TopKeysBringTheirTimes) {
  ProblemSpec spec = Even(2, 3);
  spec.query = {1, -1};
  spec.key = {1, 3, 2};
  spec.kind = Kind::kTicks;
  spec.query_ticks = {60, 70};
  spec.key_ticks = {50, 10, 65};
  spec.causal = true;
  const Answer ticks = RunSpec(spec, {.output = false, .top_k = 3});
  EXPECT_EQ(ticks.top_rows, (std::vector<int64_t>{1, 0, -1, 0, 2, 1}));
  EXPECT_EQ(ticks.top_times, (std::vector<int64_t>{10, 50, 0, 50, 65, 10}));
  EXPECT_EQ(ticks.top_weights[2], 0);
  spec.kind = Kind::kReal;
  spec.query_real = {60, 70};
  spec.key_real = {50.5, 10.25, 65};
  const Answer real = RunSpec(spec, {.output = false, .top_k = 1});
  double time;
  std::memcpy(&time, real.top_times.data(), sizeof(time));
  EXPECT_EQ(time, 10.25);
}

TEST(AttentionOutputs, AKeySeenByARowThatIsNoNumberReceivesNone) {
  ProblemSpec spec = Even(3, 3);
  spec.causal = true;
  spec.query[1] = std::numeric_limits<float>::quiet_NaN();
  const Answer answer =
      RunSpec(spec, {.output = false, .entropy = true, .key_mass = true});
  EXPECT_TRUE(std::isnan(answer.key_mass[0]));
  EXPECT_TRUE(std::isnan(answer.key_mass[1]));
  EXPECT_NEAR(answer.key_mass[2], 1 / 3.0, 1e-6);
  EXPECT_EQ(answer.entropy[0], 0);
  EXPECT_TRUE(std::isnan(answer.entropy[1]));
}

// Units of several heads and tiles, in any order, on two workspaces.
TEST(AttentionOutputs, AnyOrderOfUnitsGivesTheSameBytes) {
  ProblemSpec spec;
  spec.batch = 2;
  spec.query_heads = 4;
  spec.kv_heads = 2;
  spec.queries = spec.keys = 1200;
  spec.dim = spec.value_dim = 64;
  Random random(41);
  spec.Fill(random);
  spec.causal = true;
  ExpectTheSameBytesInAnyOrder(
      spec, {.output = true, .entropy = true, .key_mass = true, .top_k = 5}, 6,
      random);
}

}  // namespace
}  // namespace attnd::testing
