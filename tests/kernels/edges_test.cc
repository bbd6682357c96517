// The corners of the semantics, for every element type on every instruction set
// of this machine: rows that see nothing, content that nobody sees, what is not
// a number, empty axes, ties, determinism.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/each_target.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Two heads, ticks 0, 1, 2, ...
ProblemSpec Rows(int64_t queries, int64_t keys, DType dtype) {
  Random random(queries * 1000 + keys);
  ProblemSpec spec;
  spec.query_heads = spec.kv_heads = 2;
  spec.queries = queries;
  spec.keys = keys;
  spec.dim = 5;
  spec.value_dim = 3;
  spec.dtype = spec.output_dtype = dtype;
  spec.Fill(random);
  spec.kind = Kind::kTicks;
  spec.query_ticks.resize(queries);
  std::iota(spec.query_ticks.begin(), spec.query_ticks.end(), 0);
  spec.key_ticks.resize(keys);
  std::iota(spec.key_ticks.begin(), spec.key_ticks.end(), 0);
  return spec;
}

TEST(Edges, ARowThatSeesNoKeyIsEmptyByEveryMask) {
  OnEachTypeAndTarget([](DType dtype) {
    const ProblemSpec plain = Rows(70, 70, dtype);
    std::vector<ProblemSpec> specs(6, plain);
    specs[0].causal = specs[0].strict = true;
    specs[1].past_ticks = 0;
    for (int64_t& t : specs[1].key_ticks) t += 1;  // the first key is at 1
    specs[1].future_ticks = 0;
    specs[2].causal_index = specs[2].strict = true;
    specs[3].causal = specs[3].strict = true;
    specs[3].past_keys = 5;
    specs[4].key_ranges = {{.begin_ticks = 1, .end_ticks = 69}};
    specs[4].causal = true;
    specs[5].bias_shape = {1, 1, 70, 1};
    specs[5].bias.assign(70, 0);
    specs[5].bias[0] = -kInfinity;
    specs[5].bias_dtype = dtype;
    for (size_t s = 0; s < specs.size(); ++s) {
      const Answer answer = RunSpec(specs[s], kEverything);
      for (int h = 0; h < 2; ++h) {
        const int64_t row = h * 70;
        for (int c = 0; c < 3; ++c) ASSERT_EQ(answer.output[row * 3 + c], 0);
        ASSERT_EQ(answer.lse[row], -kInfinity) << "mask " << s;
        ASSERT_EQ(answer.entropy[row], 0);
        ASSERT_EQ(answer.top_rows[row * 2], -1);
        ASSERT_EQ(answer.top_weights[row * 2], 0);
        for (int64_t j = 0; j < 70; ++j) {
          ASSERT_EQ(answer.weights[row * 70 + j], 0);
          ASSERT_EQ(answer.scores[row * 70 + j], -kInfinity);
        }
        ASSERT_TRUE(std::isfinite(answer.lse[row + 1])) << "mask " << s;
      }
    }
  });
}

TEST(Edges, WhatNobodySeesMayHoldAnything) {
  OnEachTypeAndTarget([](DType dtype) {
    ProblemSpec spec = Rows(130, 130, dtype);
    spec.key_validity.assign(130, 1);
    spec.value_mask.assign(130 * 3, 1);
    spec.bias_shape = {1, 1, 1, 130};
    spec.bias.assign(130, 0);
    for (int64_t j = 0; j < 130; j += 7) {
      spec.key_validity[j] = 0;
      spec.value_mask[((j + 1) % 130) * 3 + 2] = 0;
    }
    const Answer clean = RunSpec(spec, kEverything);
    for (float bad : {kNaN, kInfinity, -kInfinity}) {
      ProblemSpec dirty = spec;
      for (int64_t j = 0; j < 130; j += 7) {
        dirty.bias[j] = bad;
        for (int h = 0; h < 2; ++h) {
          dirty.key[(h * 130 + j) * 5 + 1] = bad;
          dirty.value[(h * 130 + j) * 3 + 1] = bad;
          dirty.value[(h * 130 + (j + 1) % 130) * 3 + 2] = bad;
        }
      }
      ASSERT_EQ(CompareBits(clean, RunSpec(dirty, kEverything)), "");
    }
  });
}

TEST(Edges, WhatIsSeenAndNotFiniteMakesExactlyItsRowsNaN) {
  OnEachTypeAndTarget([](DType dtype) {
    ProblemSpec spec = Rows(130, 130, dtype);
    spec.causal = true;
    const Answer clean = RunSpec(spec);
    ProblemSpec bad = spec;
    bad.key[66 * 5] = kInfinity;                 // head 0, key 66
    bad.value[(130 + 40) * 3 + 1] = -kInfinity;  // head 1, key 40, channel 1
    const Answer answer = RunSpec(bad);
    for (int64_t i = 0; i < 130; ++i) {
      for (int64_t c = 0; c < 3; ++c) {
        const int64_t first = i * 3 + c, second = (130 + i) * 3 + c;
        if (i >= 66) {
          ASSERT_TRUE(std::isnan(answer.output[first])) << i;
        } else {
          ASSERT_EQ(answer.output[first], clean.output[first]) << i;
        }
        if (i >= 40 && c == 1) {
          ASSERT_TRUE(std::isnan(answer.output[second])) << i;
        } else {
          ASSERT_EQ(answer.output[second], clean.output[second]) << i;
        }
      }
    }
  });
}

TEST(Edges, EmptyAxesGiveEmptyOrZeroAnswers) {
  OnEachTypeAndTarget([](DType dtype) {
    for (int axis = 0; axis < 4; ++axis) {
      ProblemSpec spec;
      spec.dtype = spec.output_dtype = dtype;
      spec.batch = axis == 0 ? 0 : 2;
      spec.queries = axis == 1 ? 0 : 2;
      spec.keys = axis == 2 ? 0 : 2;
      spec.dim = 2;
      spec.value_dim = axis == 3 ? 0 : 2;
      Random random(axis);
      spec.Fill(random);
      const Answer answer = RunSpec(spec, kEverything);
      ASSERT_EQ(
          answer.output.size(),
          static_cast<size_t>(spec.batch * spec.queries * spec.value_dim));
      ASSERT_EQ(answer.key_mass.size(),
                static_cast<size_t>(spec.batch * spec.keys));
      if (axis == 2) {
        for (float v : answer.output) ASSERT_EQ(v, 0);
        for (float v : answer.lse) ASSERT_EQ(v, -kInfinity);
        for (int64_t row : answer.top_rows) ASSERT_EQ(row, -1);
      }
      if (axis == 1) {
        for (float v : answer.key_mass) ASSERT_EQ(v, 0);
      }
      if (axis == 3) {
        for (float v : answer.lse) ASSERT_TRUE(std::isfinite(v));
      }
    }
  });
}

TEST(Edges, TimesAtTheEndsOfTheirTypeSaturate) {
  OnEachTypeAndTarget([](DType dtype) {
    ProblemSpec spec = Rows(2, 3, dtype);
    spec.query_ticks = {INT64_MIN, -1};
    spec.key_ticks = {INT64_MIN, -2, -1};
    spec.past_ticks = INT64_MAX;
    spec.future_ticks = INT64_MAX;
    ASSERT_EQ(Judge(spec), "");
    spec.causal = true;
    spec.past_keys = INT64_MAX;
    spec.prefix = INT64_MAX;
    ASSERT_EQ(Judge(spec), "");
  });
}

TEST(Edges, PermutedBatchItemsHaveTheirBytes) {
  OnEachTypeAndTarget([](DType dtype) {
    ProblemSpec spec = Rows(80, 90, dtype);
    spec.batch = 3;
    Random random(3);
    spec.Fill(random);
    spec.causal = true;
    spec.key_lengths = {90, 40, 7};
    const Answer answer = RunSpec(spec, kEverything);
    // The last item comes first.
    ProblemSpec turned = spec;
    const auto turn = [](auto& values) {
      std::rotate(values.begin(), values.end() - values.size() / 3,
                  values.end());
    };
    turn(turned.query);
    turn(turned.key);
    turn(turned.value);
    turn(turned.key_lengths);
    Answer back = RunSpec(turned, kEverything);
    for (auto* v : {&back.output, &back.lse, &back.scores, &back.weights,
                    &back.entropy, &back.key_mass, &back.top_weights}) {
      std::rotate(v->begin(), v->begin() + v->size() / 3, v->end());
    }
    std::rotate(back.top_rows.begin(),
                back.top_rows.begin() + back.top_rows.size() / 3,
                back.top_rows.end());
    ASSERT_EQ(CompareBits(answer, back), "");
  });
}

// Rows of falling times causal by index: a one-sided encoding sees the future.
TEST(Edges, ByIndexOneSidedEncodingsRefuseTheFutureTheySee) {
  ProblemSpec spec = Rows(3, 3, DType::kF32);
  spec.query_ticks = {5, 6, 7};
  spec.key_ticks = {4, 9, 6};
  spec.causal_index = true;
  spec.encoding.emplace();
  spec.encoding->blocks = {DecayBlock{.rates = {0.1}}};
  const auto refused =
      attnd::testing::Run(OwnedProblem::Build(spec)->problem());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("query row 1 and key row 1"),
            std::string::npos)
      << refused.status();
  // Hidden, that key is no reason to refuse.
  spec.key_validity = {1, 0, 1};
  EXPECT_EQ(Judge(spec), "");
  spec.key_validity.clear();
  spec.query_ticks = {5, 9, 10};
  spec.key_ticks = {4, 9, 7};
  EXPECT_EQ(Judge(spec), "");
}

}  // namespace
}  // namespace attnd::testing
