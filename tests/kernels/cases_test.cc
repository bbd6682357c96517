// Faults of attention kernels that users really met, each with an answer in
// closed form: rows without keys, silent NaN, corners of causality, lse in the
// wrong base, tails. cases_time_test.cc has those of encodings and times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void ExpectRow(const std::vector<float>& got, size_t row,
               const std::vector<double>& expected, double bound = 1e-5) {
  ASSERT_GE(got.size(), (row + 1) * expected.size());
  for (size_t c = 0; c < expected.size(); ++c) {
    EXPECT_NEAR(got[row * expected.size() + c], expected[c], bound)
        << "row " << row << " column " << c;
  }
}

// ---- rows with nothing to attend to ----------------------------------------

// Two queries, three keys.
ProblemSpec TwoByThree() {
  ProblemSpec spec;
  spec.queries = 2;
  spec.keys = 3;
  spec.dim = spec.value_dim = 2;
  spec.query = {1, 0, 0, 1};
  spec.key = {1, 0, 0, 1, 1, 1};
  spec.value = {1, 2, 3, 4, 5, 6};
  spec.scale = static_cast<float>(1 / std::sqrt(2.0));
  return spec;
}

void ExpectEmptyFirstRow(const ProblemSpec& spec) {
  const Answer answer = RunSpec(spec);
  ExpectRow(answer.output, 0, {0, 0}, 0);
  ExpectRow(answer.weights, 0, {0, 0, 0}, 0);
  EXPECT_EQ(answer.lse[0], -kInfinity);
  ExpectRow(answer.weights, 1, {0.197776, 0.401112, 0.401112});
  ExpectRow(answer.output, 1, {3.406673, 4.406673});
  EXPECT_NEAR(answer.lse[1], 1.620621, 1e-5);
  // As if row 0 saw everything.
  const Answer full = RunSpec(TwoByThree());
  EXPECT_EQ(answer.lse[1], full.lse[1]);
  for (size_t c = 2; c < 4; ++c) EXPECT_EQ(answer.output[c], full.output[c]);
  for (size_t c = 3; c < 6; ++c) EXPECT_EQ(answer.weights[c], full.weights[c]);
}

TEST(EmptyRow, ByTimeIsZeroAndLeavesOthersTheirBits) {
  ProblemSpec spec = TwoByThree();
  spec.kind = Kind::kTicks;
  spec.query_ticks = {0, 9};
  spec.key_ticks = {7, 8, 9};
  spec.causal = true;
  ExpectEmptyFirstRow(spec);
}

TEST(EmptyRow, ByBiasOfMinusInfinityIsTheSame) {
  ProblemSpec spec = TwoByThree();
  spec.bias_shape = {1, 1, 2, 1};
  spec.bias = {-kInfinity, 0};
  ExpectEmptyFirstRow(spec);
}

TEST(EmptyRow, ByWindowIsTheSame) {
  ProblemSpec spec = TwoByThree();
  spec.kind = Kind::kReal;
  spec.query_real = {100, 2};
  spec.key_real = {1, 2, 2};
  spec.past_time = 1;
  ExpectEmptyFirstRow(spec);
}

TEST(EmptyRow, ByLengthIsZero) {
  ProblemSpec spec = TwoByThree();
  for (bool by_validity : {false, true}) {
    if (by_validity) {
      spec.key_lengths = {};
      spec.key_validity = {0, 0, 0};
    } else {
      spec.key_lengths = {0};
    }
    const Answer answer = RunSpec(spec);
    for (float v : answer.output) EXPECT_EQ(v, 0);
    for (float v : answer.weights) EXPECT_EQ(v, 0);
    for (float v : answer.lse) EXPECT_EQ(v, -kInfinity);
  }
}

TEST(EmptyRow, AFiniteBiasHoweverLowIsNotEmpty) {
  ProblemSpec spec = TwoByThree();
  spec.bias_shape = {1, 1, 2, 1};
  spec.bias = {-3.4e38f, 0};
  const Answer answer = RunSpec(spec);
  ExpectRow(answer.output, 0, {3, 4});
  ExpectRow(answer.weights, 0, {1 / 3.0, 1 / 3.0, 1 / 3.0});
  ExpectRow(answer.output, 1, {3.406673, 4.406673});
}

// ---- NaN that becomes a number ----------------------------------------------

TEST(SilentNaN, ABadQueryGivesNaNWithEveryEncoding) {
  std::vector<EncodingSpec> encodings(3);
  encodings[1].blocks = {RotaryBlock{}};
  encodings[2].biases = {AlibiTerm{.slopes = {0.5}, .two_sided = true}};
  for (const EncodingSpec& encoding : encodings) {
    ProblemSpec spec = TwoByThree();
    spec.encoding = encoding;
    const Answer clean = RunSpec(spec);
    spec.query[0] = kNaN;
    const Answer answer = RunSpec(spec);
    EXPECT_TRUE(std::isnan(answer.output[0]));
    EXPECT_TRUE(std::isnan(answer.output[1]));
    EXPECT_TRUE(std::isnan(answer.lse[0]));
    EXPECT_EQ(answer.output[2], clean.output[2]);
    EXPECT_EQ(answer.output[3], clean.output[3]);
  }
}

// ---- causality when queries and keys differ in number -----------------------

TEST(Causality, GoesByTimeNotByACornerOfTheMatrix) {
  const std::vector<std::vector<int64_t>> times = {{10, 20, 30, 40},
                                                   {10, 30, 30, 40}};
  for (const std::vector<int64_t>& keys : times) {
    // Every order of the keys: value v stands at its time.
    std::vector<int> order = {0, 1, 2, 3};
    do {
      ProblemSpec spec;
      spec.keys = 4;
      spec.dim = spec.value_dim = 1;
      spec.query = {0};
      spec.kind = Kind::kTicks;
      spec.query_ticks = {30};
      spec.causal = true;
      for (int j : order) {
        spec.key.push_back(1);
        spec.value.push_back(std::ldexp(1.0f, j));
        spec.key_ticks.push_back(keys[j]);
      }
      EXPECT_NEAR(RunSpec(spec).output[0], 7 / 3.0, 1e-5);
      spec.strict = true;
      EXPECT_NEAR(RunSpec(spec).output[0], keys[1] == 30 ? 1 : 1.5, 1e-5);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(Causality, WithoutTimesTheLastRowsAlign) {
  ProblemSpec spec;
  spec.queries = 2;
  spec.keys = 4;
  spec.dim = spec.value_dim = 1;
  spec.query = {0, 0};
  spec.key = {1, 1, 1, 1};
  spec.value = {1, 2, 4, 8};
  spec.causal = true;
  const Answer answer = RunSpec(spec);
  EXPECT_NEAR(answer.output[0], 7 / 3.0, 1e-5);
  EXPECT_NEAR(answer.output[1], 15 / 4.0, 1e-5);
}

// ---- log-sum-exp ------------------------------------------------------------

TEST(LogSumExp, IsNaturalAndWholeWhateverIsAskedFor) {
  ProblemSpec spec;
  spec.keys = 2;
  spec.dim = spec.value_dim = 1;
  spec.query = {2};
  spec.key = {1, 0};
  spec.value = {3, 5};
  for (bool biased : {false, true}) {
    if (biased) {
      spec.bias_shape = {1, 1, 1, 2};
      spec.bias = {-1, 0};
    }
    const double lse = biased ? 1.313262 : 2.126928;
    const double first = biased ? 1 : 2;
    EXPECT_NEAR(RunSpec(spec, {.output = false, .lse = true}).lse[0], lse,
                1e-5);
    ExpectRow(RunSpec(spec, {.output = false, .scores = true}).scores, 0,
              {first, 0});
    ExpectRow(RunSpec(spec, {.output = false, .weights = true}).weights, 0,
              {std::exp(first - lse), std::exp(-lse)});
    const Answer all = RunSpec(spec);
    EXPECT_NEAR(all.lse[0], lse, 1e-5);
    ExpectRow(all.scores, 0, {first, 0});
  }
}

// ---- sizes that do not fill a block -----------------------------------------

TEST(Tails, EveryNumberOfQueriesAndKeysGivesThePlainMean) {
  const std::vector<int64_t> sizes = {1,   2,   7,   8,   9,  15, 16,
                                      17,  31,  33,  63,  64, 65, 127,
                                      128, 129, 137, 255, 257};
  for (int64_t queries : sizes) {
    for (int64_t keys : sizes) {
      ProblemSpec spec;
      spec.queries = queries;
      spec.keys = keys;
      spec.dim = 3;
      spec.value_dim = 2;
      spec.query.assign(queries * 3, 0);
      spec.key.assign(keys * 3, 1);
      for (int64_t j = 0; j < keys; ++j) {
        spec.value.insert(spec.value.end(), 2, static_cast<float>(j));
      }
      const double mean = (keys - 1) / 2.0;
      const Answer answer = RunSpec(spec);
      for (float v : answer.output) ASSERT_NEAR(v, mean, 1e-5 * (mean + 1));
      for (float v : answer.lse) ASSERT_NEAR(v, std::log(keys), 1e-5);
      for (float v : answer.weights) ASSERT_NEAR(v * keys, 1, 1e-5);
      // Keys from n on invalid.
      const int64_t n = (keys + 1) / 2;
      spec.key_lengths = {n};
      const Answer part = RunSpec(spec, {.output = true, .lse = true});
      for (float v : part.output) ASSERT_NEAR(v, (n - 1) / 2.0, 1e-5 * n);
      for (float v : part.lse) ASSERT_NEAR(v, std::log(n), 1e-5);
      if (queries != keys) continue;
      spec.key_lengths = {};
      spec.causal = true;
      const Answer causal = RunSpec(spec, {.output = true, .lse = true});
      for (int64_t i = 0; i < queries; ++i) {
        ASSERT_NEAR(causal.output[2 * i], i / 2.0, 1e-5 * (i + 1));
        ASSERT_NEAR(causal.lse[i], std::log(i + 1), 1e-5);
      }
    }
  }
}

TEST(Tails, EveryDimensionIsComputedWhole) {
  const std::vector<int64_t> dims = {1,  2,  3,  5,  8,  15, 16,
                                     17, 31, 64, 80, 96, 129};
  for (int64_t dim : dims) {
    for (int64_t value_dim : dims) {
      Random random(dim * 1000 + value_dim);
      ProblemSpec spec;
      spec.queries = 9;
      spec.keys = 17;
      spec.dim = dim;
      spec.value_dim = value_dim;
      spec.Fill(random);
      spec.scale = static_cast<float>(1 / std::sqrt(dim));
      ASSERT_EQ(Judge(spec), "");
      if (dim < 2) continue;
      spec.encoding.emplace();
      spec.encoding->blocks = {
          RotaryBlock{.rotary_dim = static_cast<int>(dim / 2 * 2)}};
      ASSERT_EQ(Judge(spec), "");
    }
  }
}

}  // namespace
}  // namespace attnd::testing
