// What a row cannot see must not reach it, whatever it holds; what it does see
// and is not a number must not look like one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kRealNaN = std::numeric_limits<double>::quiet_NaN();

const std::vector<float>& NotFinite() {
  static const auto* values =
      new std::vector<float>{kNaN, kInfinity, -kInfinity};
  return *values;
}

// Rows of B1 with the encodings that the kernels serve.
std::vector<ProblemSpec> Problems(int64_t queries, int64_t keys) {
  std::vector<ProblemSpec> specs(4);
  for (size_t e = 0; e < specs.size(); ++e) {
    ProblemSpec& spec = specs[e];
    spec.seed = e + 1;
    Random random(spec.seed);
    spec.query_heads = 2;
    spec.queries = queries;
    spec.keys = keys;
    spec.dim = 6;
    spec.value_dim = 5;
    spec.Fill(random);
    spec.kind = Kind::kTicks;
    spec.query_ticks.resize(queries);
    spec.key_ticks.resize(keys);
    std::iota(spec.query_ticks.begin(), spec.query_ticks.end(), 0);
    std::iota(spec.key_ticks.begin(), spec.key_ticks.end(), 0);
    if (e > 0) spec.encoding.emplace();
    if (e % 2 == 1) spec.encoding->blocks = {RotaryBlock{}};
    if (e >= 2) spec.encoding->biases = {AlibiTerm{.slopes = {0.1}}};
    spec.causal = true;
  }
  return specs;
}

// "" when row `row` of every head is the same in bits.
std::string RowBits(const ProblemSpec& spec, int64_t row, const Answer& a,
                    const Answer& b) {
  for (int64_t h = 0; h < spec.query_heads; ++h) {
    const int64_t r = h * spec.queries + row;
    const auto same = [r](const std::vector<float>& x,
                          const std::vector<float>& y, int64_t width) {
      return std::memcmp(&x[r * width], &y[r * width], 4 * width) == 0;
    };
    if (!same(a.output, b.output, spec.value_dim)) return "output differs";
    if (!same(a.lse, b.lse, 1)) return "lse differs";
    if (!same(a.scores, b.scores, spec.keys)) return "scores differ";
    if (!same(a.weights, b.weights, spec.keys)) return "weights differ";
  }
  return "";
}

bool AllNaN(const std::vector<float>& values, int64_t row, int64_t width) {
  return std::all_of(&values[row * width], &values[row * width] + width,
                     [](float v) { return std::isnan(v); });
}

constexpr int64_t kSizes[] = {8, 129, 600};

TEST(AttentionHidden, ABadKeyMakesExactlyTheRowsThatSeeItNaN) {
  for (int64_t size : kSizes) {
    for (const ProblemSpec& clean : Problems(size, size)) {
      const Answer expected = RunSpec(clean);
      for (float bad : NotFinite()) {
        ProblemSpec spec = clean;
        spec.key[5 * spec.dim + 2] = bad;
        const Answer answer = RunSpec(spec);
        for (int64_t i = 0; i < size; ++i) {
          if (i < 5) {
            ASSERT_EQ(RowBits(spec, i, expected, answer), "") << i;
          } else {
            ASSERT_TRUE(AllNaN(answer.output, i, spec.value_dim))
                << bad << " row " << i << " " << spec.Describe();
            ASSERT_TRUE(std::isnan(answer.lse[i]));
            ASSERT_TRUE(std::isnan(answer.scores[i * size + 5]));
          }
        }
      }
    }
  }
}

TEST(AttentionHidden, LogitsBelowTheRangeAreNotAnEmptyRow) {
  ProblemSpec spec;
  spec.queries = 2;
  spec.keys = 2;
  spec.dim = spec.value_dim = 1;
  spec.query = {-1e30f, 1};
  spec.key = {1e9f, 1e9f};
  spec.value = {1, 3};
  const Answer answer = RunSpec(spec);
  ASSERT_EQ(answer.output.size(), 2u);
  EXPECT_TRUE(std::isnan(answer.output[0]));
  EXPECT_TRUE(std::isnan(answer.lse[0]));
  EXPECT_TRUE(std::isnan(answer.weights[0]));
  EXPECT_EQ(answer.output[1], 2);
  EXPECT_EQ(answer.weights[2], 0.5f);
}

TEST(AttentionHidden, ABadValueMakesItsChannelNaNInExactlyTheRowsThatSeeIt) {
  for (int64_t size : kSizes) {
    for (const ProblemSpec& clean : Problems(size, size)) {
      const Answer expected = RunSpec(clean);
      for (float bad : NotFinite()) {
        ProblemSpec spec = clean;
        spec.value[5 * spec.value_dim + 3] = bad;
        const Answer answer = RunSpec(spec);
        for (int64_t i = 0; i < size; ++i) {
          if (i < 5) {
            ASSERT_EQ(RowBits(spec, i, expected, answer), "") << i;
          } else {
            ASSERT_TRUE(std::isnan(answer.output[i * spec.value_dim + 3]))
                << bad << " row " << i << " " << spec.Describe();
            // A value says nothing about scores.
            ASSERT_EQ(answer.lse[i], expected.lse[i]);
          }
        }
      }
    }
  }
}

TEST(AttentionHidden, ABadQueryMakesExactlyItsOwnRowNaN) {
  for (int64_t size : kSizes) {
    for (const ProblemSpec& clean : Problems(size, size)) {
      const Answer expected = RunSpec(clean);
      for (float bad : NotFinite()) {
        ProblemSpec spec = clean;
        spec.query[5 * spec.dim + 1] = bad;  // head 0
        const Answer answer = RunSpec(spec);
        for (int64_t i = 0; i < size; ++i) {
          if (i != 5) {
            ASSERT_EQ(RowBits(spec, i, expected, answer), "") << i;
          }
        }
        EXPECT_TRUE(AllNaN(answer.output, 5, spec.value_dim)) << bad;
        EXPECT_TRUE(std::isnan(answer.lse[5])) << bad;
        // Hidden keys stay hidden.
        EXPECT_EQ(answer.scores[5 * size + 6], -kInfinity);
        EXPECT_EQ(answer.weights[5 * size + 6], 0);
      }
    }
  }
}

TEST(AttentionHidden, ABadValueIsNaNEvenAtAWeightThatUnderflows) {
  ProblemSpec spec = Problems(2, 2)[0];
  spec.dim = spec.value_dim = 1;
  spec.query_heads = 1;
  spec.query = {1000, 1000};
  spec.key = {0, 1};
  spec.value = {kInfinity, 1};
  const Answer answer = RunSpec(spec);
  EXPECT_EQ(answer.weights[2], 0);
  EXPECT_TRUE(std::isnan(answer.output[1]));
}

TEST(AttentionHidden, ABadKeyBehindABiasOfMinusInfinityDoesNotLeak) {
  for (int64_t keys : {3, 64, 200}) {
    for (float bad : NotFinite()) {
      for (bool in_value : {false, true}) {
        ProblemSpec spec = Problems(2, keys)[0];
        spec.causal = false;
        spec.bias_shape = {1, 1, 2, keys};
        spec.bias.resize(2 * keys);
        spec.bias[1] = -kInfinity;  // hides key 1 from query 0 alone
        const Answer expected = RunSpec(spec);
        if (in_value) {
          spec.value[1 * spec.value_dim] = bad;
        } else {
          spec.key[1 * spec.dim] = bad;
        }
        const Answer answer = RunSpec(spec);
        EXPECT_EQ(RowBits(spec, 0, expected, answer), "")
            << bad << (in_value ? " in value" : " in key") << " of " << keys;
        EXPECT_TRUE(std::isnan(answer.output[1 * spec.value_dim]));
        EXPECT_EQ(Judge(spec), "");
      }
    }
  }
}

// Fills with `bad` everything that lengths and validity take out.
ProblemSpec Poisoned(const ProblemSpec& clean, float bad) {
  ProblemSpec spec = clean;
  const auto poison = [bad](std::vector<float>& rows, int64_t row,
                            int64_t cols) {
    std::fill_n(rows.begin() + row * cols, cols, bad);
  };
  const bool own_times =
      static_cast<int64_t>(spec.key_real.size()) == spec.batch * spec.keys;
  for (int64_t b = 0; b < spec.batch; ++b) {
    for (int64_t j = 0; j < spec.keys; ++j) {
      const bool valid =
          (spec.key_lengths.empty() || j < spec.key_lengths[b]) &&
          (spec.key_validity.empty() || spec.key_validity[b * spec.keys + j]);
      if (valid) continue;
      for (int64_t g = 0; g < spec.kv_heads; ++g) {
        const int64_t row = (b * spec.kv_heads + g) * spec.keys + j;
        poison(spec.key, row, spec.dim);
        poison(spec.value, row, spec.value_dim);
      }
      if (own_times) {
        spec.key_real[b * spec.keys + j] = kRealNaN;
        spec.key_ticks[b * spec.keys + j] = j % 2 ? INT64_MIN : INT64_MAX;
      }
    }
    if (spec.query_lengths.empty()) continue;
    for (int64_t i = spec.query_lengths[b]; i < spec.queries; ++i) {
      for (int64_t h = 0; h < spec.query_heads; ++h) {
        poison(spec.query, (b * spec.query_heads + h) * spec.queries + i,
               spec.dim);
      }
      if (static_cast<int64_t>(spec.query_real.size()) ==
          spec.batch * spec.queries) {
        spec.query_real[b * spec.queries + i] = kRealNaN;
        spec.query_ticks[b * spec.queries + i] = INT64_MIN;
      }
    }
  }
  return spec;
}

TEST(AttentionHidden, PaddingMayHoldAnythingAndChangesNoBit) {
  int compared = 0;
  for (uint64_t seed = 1; compared < 40; ++seed) {
    const ProblemSpec spec =
        RandomProblem(seed, {.pairs = 30'000, .max_rows = 300});
    if (spec.key_lengths.empty() && spec.key_validity.empty()) continue;
    ++compared;
    const Answer clean = RunSpec(spec);
    for (float bad : {kNaN, kInfinity, 1e30f}) {
      ASSERT_EQ(CompareBits(clean, RunSpec(Poisoned(spec, bad))), "")
          << bad << "\n"
          << spec.Describe();
    }
  }
}

TEST(AttentionHidden, KeysOutsideTheWindowMayHoldAnything) {
  for (int64_t size : kSizes) {
    for (ProblemSpec clean : Problems(size, size)) {
      clean.past_ticks = 3;
      const Answer expected = RunSpec(clean);
      for (float bad : NotFinite()) {
        ProblemSpec spec = clean;
        for (int64_t c = 0; c < spec.dim; ++c) spec.key[c] = bad;
        for (int64_t c = 0; c < spec.value_dim; ++c) spec.value[c] = bad;
        const Answer answer = RunSpec(spec);
        for (int64_t i = 4; i < size; ++i) {
          ASSERT_EQ(RowBits(spec, i, expected, answer), "") << i;
        }
        ASSERT_EQ(Judge(spec), "");
      }
    }
  }
}

TEST(AttentionHidden, RandomBadElementsMatchTheReference) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    ProblemSpec spec = RandomProblem(seed, {.pairs = 5'000, .max_rows = 140});
    Random random(seed);
    for (auto* tensor : {&spec.query, &spec.key, &spec.value}) {
      if (random.Coin()) continue;
      (*tensor)[random.Integer(0, static_cast<int64_t>(tensor->size()) - 1)] =
          random.Pick(NotFinite());
    }
    ASSERT_EQ(Judge(spec), "");
  }
}

TEST(AttentionHidden, RowsThatSeeNoKeyAreZeroWithLseMinusInfinity) {
  for (int64_t size : kSizes) {
    for (ProblemSpec spec : Problems(size, size)) {
      spec.strict = true;  // the first query sees nothing
      const Answer answer = RunSpec(spec);
      for (int64_t h = 0; h < spec.query_heads; ++h) {
        const int64_t r = h * size;
        EXPECT_EQ(answer.lse[r], -kInfinity);
        for (int64_t c = 0; c < spec.value_dim; ++c) {
          EXPECT_EQ(answer.output[r * spec.value_dim + c], 0);
        }
        for (int64_t j = 0; j < size; ++j) {
          EXPECT_EQ(answer.scores[r * size + j], -kInfinity);
          EXPECT_EQ(answer.weights[r * size + j], 0);
        }
      }
      EXPECT_EQ(Judge(spec), "");
    }
  }
}

TEST(AttentionHidden, ABadQueryThatSeesNoKeyIsZeroToo) {
  ProblemSpec spec = Problems(3, 3)[0];
  spec.strict = true;
  std::fill_n(spec.query.begin(), spec.dim, kNaN);
  const Answer answer = RunSpec(spec);
  EXPECT_EQ(answer.lse[0], -kInfinity);
  for (int64_t c = 0; c < spec.value_dim; ++c) EXPECT_EQ(answer.output[c], 0);
  EXPECT_EQ(Judge(spec), "");
}

TEST(AttentionHidden, ItemsWithoutKeysAreEmptyRows) {
  ProblemSpec spec = Problems(3, 4)[0];
  spec.batch = 3;
  Random random(4);
  spec.Fill(random);
  spec.key_lengths = {0, 4, 0};
  spec.query_lengths = {3, 3, 0};
  EXPECT_EQ(Judge(spec), "");
  spec.key_lengths = {};
  spec.key_validity = {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0};
  EXPECT_EQ(Judge(spec), "");
}

}  // namespace
}  // namespace attnd::testing
