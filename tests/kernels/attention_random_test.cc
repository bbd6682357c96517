// The kernels against the double reference on problems of every kind and size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

TEST(Attention, RandomSmallProblemsKeepTheContract) {
  const RandomLimits limits = {.pairs = 20'000, .max_rows = 150};
  for (uint64_t seed = 1; seed <= (kSanitized ? 100 : 400); ++seed) {
    const std::string why = Judge(RandomProblem(seed, limits));
    EXPECT_EQ(why, "") << "seed " << seed;
  }
}

TEST(Attention, RandomLargeProblemsKeepTheContract) {
  const RandomLimits limits = {.pairs = 250'000, .max_rows = 1030};
  for (uint64_t seed = 1001; seed <= (kSanitized ? 1015 : 1080); ++seed) {
    const std::string why = Judge(RandomProblem(seed, limits));
    EXPECT_EQ(why, "") << "seed " << seed;
  }
}

// One head, no masks but what the test adds, times of `span_seconds`.
ProblemSpec PlainProblem(uint64_t seed, int64_t queries, int64_t keys,
                         double span_seconds) {
  Random random(seed);
  ProblemSpec spec;
  spec.seed = seed;
  spec.queries = queries;
  spec.keys = keys;
  spec.dim = spec.value_dim = 32;
  spec.Fill(random);
  spec.scale = static_cast<float>(1 / std::sqrt(32.0));
  SetRandomTimes(random, TimeAxis::Kind::kTicks, false, span_seconds, spec);
  spec.ratio = {.tick_ns = 1, .unit_ns = 1'000'000'000};
  return spec;
}

// Beside one key that all attend to, thousands of equal weights: added to a
// large sum one by one, all would be rounded the same way. `value` is theirs.
ProblemSpec SinkProblem(int64_t queries, float logit, float value) {
  constexpr int64_t kKeys = 8192;
  ProblemSpec spec;
  spec.queries = queries;
  spec.keys = kKeys;
  spec.dim = spec.value_dim = 1;
  spec.query.assign(queries, 1);
  spec.key.assign(kKeys, 0);
  spec.key[0] = logit;
  spec.value.assign(kKeys, value);
  spec.value[0] = 1 - value;
  spec.scale = 1;
  return spec;
}

TEST(Attention, ManyEqualKeysBesideALargeOneKeepTheContract) {
  for (const int64_t queries : {1, 8, kSanitized ? 34 : 130}) {
    for (float logit = 7; logit < 16; logit += 1.3f) {
      for (const float value : {0.0f, 1.0f}) {
        EXPECT_EQ(Judge(SinkProblem(queries, logit, value)), "")
            << queries << " queries, logit " << logit << ", value " << value;
      }
    }
  }
}

// The same by an encoding: far keys under decay have the logit 0.
TEST(Attention, FarKeysUnderDecayKeepTheContract) {
  Random random(77);
  ProblemSpec spec;
  spec.queries = kSanitized ? 32 : 256;
  spec.keys = 8192;
  spec.dim = spec.value_dim = 8;
  spec.Fill(random);
  spec.key = spec.value = random.Normals(spec.keys * spec.dim);
  std::copy_n(spec.key.begin(), spec.query.size(), spec.query.begin());
  spec.scale = 1;
  for (int64_t j = 0; j < spec.keys; ++j) spec.key_ticks.push_back(j);
  for (int64_t i = 0; i < spec.queries; ++i) spec.query_ticks.push_back(i);
  spec.kind = TimeAxis::Kind::kTicks;
  spec.ratio = {.tick_ns = 1, .unit_ns = 1};
  spec.encoding.emplace();
  spec.encoding->blocks = {DecayBlock{.rates = {0.5}}};
  spec.encoding->unit_ns = 1;
  spec.encoding->absolute_lag = true;
  EXPECT_EQ(Judge(spec), "");
}

TEST(Attention, EverySizeAroundATileBorderKeepsTheContract) {
  // Ragged intervals that begin and end inside blocks and halves.
  for (int64_t queries : {63, 64, 65, 127, 129}) {
    for (int64_t keys : {63, 64, 65, 128, 129, 257, 321}) {
      ProblemSpec spec =
          PlainProblem(queries * 1000 + keys, queries, keys, 500);
      spec.causal = true;
      spec.past_ticks = 90'000'000'000;
      EXPECT_EQ(Judge(spec), "");
    }
  }
}

TEST(Attention, AThousandRowsOfEachEncodingKeepTheContract) {
  EncodingSpec rope, alibi, both;
  rope.blocks = {RotaryBlock{.rotary_dim = 8}};
  alibi.biases = {AlibiTerm{.slopes = {0.25}}};
  both.blocks = rope.blocks;
  both.biases = alibi.biases;
  uint64_t seed = 1;
  for (const EncodingSpec& encoding : {EncodingSpec(), rope, alibi, both}) {
    ProblemSpec spec = PlainProblem(++seed, 1000, 1000, 1000);
    spec.encoding = encoding;
    spec.causal = true;
    EXPECT_EQ(Judge(spec), "");
    if (kSanitized) break;
  }
}

TEST(Attention, FewQueriesOverManyKeysKeepTheContract) {
  for (int64_t queries : {1, 3}) {
    ProblemSpec spec = PlainProblem(77 + queries, queries, 8192, 1e6);
    spec.encoding.emplace();
    spec.encoding->blocks = {RotaryBlock{.rotary_dim = 8}};
    EXPECT_EQ(Judge(spec), "");
  }
}

TEST(Attention, LargeLogitsKeepTheContract) {
  for (float scale : {3.0f, 30.0f, -3.0f}) {
    ProblemSpec spec = PlainProblem(5, 130, 300, 100);
    spec.scale = scale;
    EXPECT_EQ(Judge(spec), "") << scale;
  }
}

TEST(Attention, AlignedQueriesAndKeysKeepTheContract) {
  // No term of a dot product cancels another: the worst for sums in f32.
  for (int64_t dim : {16, 64, 128, 256}) {
    for (float size : {1.0f, 8.0f, 40.0f}) {
      Random random(dim);
      ProblemSpec spec;
      spec.queries = spec.keys = 130;
      spec.dim = dim;
      spec.value_dim = 16;
      spec.Fill(random);
      spec.key = spec.query;
      spec.scale = size / static_cast<float>(dim);
      EXPECT_EQ(Judge(spec), "") << size;
      for (float& q : spec.query) q = std::abs(q);
      for (float& k : spec.key) k = std::abs(k);
      EXPECT_EQ(Judge(spec), "") << size << " positive";
    }
  }
}

// Rule N7: also where slope * span is so large that the contract, which grows
// with it, would let much pass.
TEST(Attention, LinearBiasOverALongSpanLosesNothingNearTheQuery) {
  for (bool two_sided : {false, true}) {
    for (double slope : {0.01, 0.2, 3.0}) {
      ProblemSpec spec = PlainProblem(9, 300, 300, 1e6);
      spec.causal = !two_sided;
      spec.encoding.emplace();
      spec.encoding->biases = {
          AlibiTerm{.slopes = {slope}, .two_sided = two_sided}};
      const Answer answer = RunSpec(spec, {.output = true});
      const ReferenceAnswer reference = Reference(spec);
      ASSERT_EQ(answer.output.size(), reference.output.size());
      for (size_t e = 0; e < reference.output.size(); ++e) {
        ASSERT_NEAR(answer.output[e], reference.output[e], 1e-5)
            << spec.Describe() << " slope " << slope << " element " << e;
      }
    }
  }
}

}  // namespace
}  // namespace attnd::testing
