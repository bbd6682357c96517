// Masks beyond causality and windows in time: by index, in keys, prefix,
// ranges, packed items; against the double reference, closed forms and each
// other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

TEST(AttentionMasks, RandomSmallProblemsKeepTheContract) {
  const RandomLimits limits = {.pairs = 12'000, .max_rows = 150};
  for (uint64_t seed = 1; seed <= (kSanitized ? 60 : 400); ++seed) {
    ASSERT_EQ(Judge(RandomMaskedProblem(seed, limits)), "") << "seed " << seed;
  }
}

TEST(AttentionMasks, RandomLargeProblemsKeepTheContract) {
  const RandomLimits limits = {.pairs = 150'000, .max_rows = 700};
  for (uint64_t seed = 2001; seed <= (kSanitized ? 2010 : 2060); ++seed) {
    ASSERT_EQ(Judge(RandomMaskedProblem(seed, limits)), "") << "seed " << seed;
  }
}

// Equal logits: every output is the mean of the visible values, key j being
// worth j.
ProblemSpec MeanOfRows(int64_t queries, int64_t keys) {
  ProblemSpec spec;
  spec.queries = queries;
  spec.keys = keys;
  spec.dim = spec.value_dim = 1;
  spec.query.assign(queries, 0);
  spec.key.assign(keys, 1);
  spec.value.resize(keys);
  std::iota(spec.value.begin(), spec.value.end(), 0.0f);
  return spec;
}

std::vector<float> Outputs(const ProblemSpec& spec) {
  return RunSpec(spec, {.output = true}).output;
}

TEST(AttentionMasks, WindowsInKeysCountFromTheQuerysPlace) {
  ProblemSpec spec = MeanOfRows(1, 6);
  spec.kind = Kind::kTicks;
  spec.query_ticks = {20};
  // In time order: rows 1 3 | 0 2 4 (at 20) | 5.
  spec.key_ticks = {20, 1, 20, 7, 20, 30};
  spec.past_keys = 2;
  spec.future_keys = 0;
  EXPECT_EQ(Outputs(spec)[0], 3) << "rows 2 and 4";
  spec.past_keys = 4;
  EXPECT_EQ(Outputs(spec)[0], (3 + 0 + 2 + 4) / 4.0f);
  spec.future_keys.reset();
  EXPECT_EQ(Outputs(spec)[0], (3 + 0 + 2 + 4 + 5) / 5.0f);
  spec.past_keys = 0;
  EXPECT_EQ(Outputs(spec)[0], 5);
  spec.future_keys = 0;
  EXPECT_EQ(Outputs(spec)[0], 0) << "nothing";
  spec.past_keys = spec.future_keys = INT64_MAX;
  EXPECT_EQ(Outputs(spec)[0], 2.5f);
  // All conditions hold: ties count in the window and strictness hides them.
  spec.past_keys = 4;
  spec.causal = spec.strict = true;
  EXPECT_EQ(Outputs(spec)[0], 3);
}

TEST(AttentionMasks, ThePrefixIsVisibleToAll) {
  ProblemSpec spec = MeanOfRows(300, 300);
  spec.causal = true;
  spec.past_keys = 3;
  spec.prefix = 2;
  const std::vector<float> outputs = Outputs(spec);
  for (int i = 0; i < 300; ++i) {
    double sum = 0, count = 0;
    for (int j = 0; j < 300; ++j) {
      if (j >= 2 && (j > i || j < i - 2)) continue;
      sum += j;
      ++count;
    }
    EXPECT_NEAR(outputs[i], sum / count, 1e-4) << i;
  }
  spec.prefix = 1000;
  EXPECT_NEAR(Outputs(spec)[0], 149.5, 1e-3) << "more than there are";
}

TEST(AttentionMasks, AGapBehindThePrefixCostsNoProducts) {
  ProblemSpec spec = MeanOfRows(4096, 4096);
  spec.causal = true;
  spec.past_ticks = 127;
  const auto flops = [](const ProblemSpec& s) {
    const auto owned = OwnedProblem::Build(s);
    return Plan::Make(owned->problem())->flops();
  };
  const int64_t window = flops(spec);
  spec.prefix = 4;
  // One block of 64 keys more for every row.
  const int64_t with_prefix = flops(spec);
  EXPECT_GT(with_prefix, window);
  EXPECT_LE(with_prefix, window + 4096 * 64 * 2 * 32);
}

TEST(AttentionMasks, ByIndexWhateverTheTimes) {
  ProblemSpec spec = MeanOfRows(3, 5);
  spec.kind = Kind::kTicks;
  spec.query_ticks = {7, 5, 6};
  spec.key_ticks = {9, 1, 8, 2, 3};
  spec.causal_index = true;
  EXPECT_EQ(Outputs(spec), (std::vector<float>{1, 1.5, 2}));
  spec.strict = true;
  EXPECT_EQ(Outputs(spec), (std::vector<float>{0.5, 1, 1.5}));
  spec.key_lengths = {3};
  EXPECT_EQ(Outputs(spec), (std::vector<float>{0, 0, 0.5}));
}

TEST(AttentionMasks, ByIndexWithRisingTimesIsAnIntervalAndCheap) {
  ProblemSpec spec = MeanOfRows(1024, 1024);
  spec.kind = Kind::kTicks;
  spec.query_ticks.resize(1024);
  std::iota(spec.query_ticks.begin(), spec.query_ticks.end(), 0);
  spec.key_ticks = spec.query_ticks;
  spec.causal_index = true;
  ProblemSpec by_time = spec;
  by_time.causal_index = false;
  by_time.causal = true;
  EXPECT_EQ(CompareBits(RunSpec(spec), RunSpec(by_time)), "");
}

TEST(AttentionMasks, RangesAreValidityByTime) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ProblemSpec spec = RandomProblem(seed, {.pairs = 20'000, .max_rows = 300});
    if (spec.kind != Kind::kTicks) continue;
    const int64_t first = spec.key_ticks[0];
    const int64_t last = spec.key_ticks[spec.keys / 2];
    const int64_t low = std::min(first, last), high = std::max(first, last);
    ProblemSpec by_byte = spec;
    by_byte.key_validity.resize(spec.batch * spec.keys, 1);
    for (int64_t e = 0; e < spec.batch * spec.keys; ++e) {
      const int64_t t = spec.key_ticks[e % spec.key_ticks.size()];
      if (t < low || t > high) by_byte.key_validity[e] = 0;
    }
    spec.key_ranges = {{.begin_ticks = low, .end_ticks = high}};
    EXPECT_EQ(CompareBits(RunSpec(spec), RunSpec(by_byte)), "")
        << spec.Describe();
  }
}

// Rows [begin, end) of every head of a BHLD tensor of one item.
std::vector<float> Rows(const std::vector<float>& values, int64_t heads,
                        int64_t rows, int64_t cols, int64_t begin,
                        int64_t end) {
  std::vector<float> out;
  for (int64_t h = 0; h < heads; ++h) {
    const auto head = values.begin() + h * rows * cols;
    out.insert(out.end(), head + begin * cols, head + end * cols);
  }
  return out;
}

template <typename T>
std::vector<T> Part(const std::vector<T>& values, int64_t begin, int64_t end) {
  if (values.empty()) return {};
  return {values.begin() + begin, values.begin() + end};
}

// The n-th of the packed items as a problem of its own.
ProblemSpec Unpacked(const ProblemSpec& spec, int64_t n) {
  const int64_t q0 = spec.query_offsets[n], q1 = spec.query_offsets[n + 1];
  const int64_t k0 = spec.key_offsets[n], k1 = spec.key_offsets[n + 1];
  ProblemSpec one = spec;
  one.query_offsets.clear();
  one.key_offsets.clear();
  one.queries = q1 - q0;
  one.keys = k1 - k0;
  one.query =
      Rows(spec.query, spec.query_heads, spec.queries, spec.dim, q0, q1);
  one.key = Rows(spec.key, spec.kv_heads, spec.keys, spec.dim, k0, k1);
  one.value =
      Rows(spec.value, spec.kv_heads, spec.keys, spec.value_dim, k0, k1);
  one.query_ticks = Part(spec.query_ticks, q0, q1);
  one.query_real = Part(spec.query_real, q0, q1);
  one.key_ticks = Part(spec.key_ticks, k0, k1);
  one.key_real = Part(spec.key_real, k0, k1);
  one.key_validity = Part(spec.key_validity, k0, k1);
  one.value_mask =
      Part(spec.value_mask, k0 * spec.value_dim, k1 * spec.value_dim);
  return one;
}

TEST(AttentionMasks, PackedItemsHaveTheBytesOfItemsAlone) {
  int compared = 0;
  for (uint64_t seed = 3000; compared < (kSanitized ? 15 : 60); ++seed) {
    ProblemSpec spec =
        RandomMaskedProblem(seed, {.pairs = 30'000, .max_rows = 300});
    if (spec.query_offsets.empty()) continue;
    ++compared;
    spec.SetLayouts(Layout::kBHLD);
    spec.bias_shape = {};
    spec.bias.clear();
    const Answer packed = RunSpec(spec, {.output = true, .lse = true});
    for (size_t n = 0; n + 1 < spec.query_offsets.size(); ++n) {
      const ProblemSpec one = Unpacked(spec, static_cast<int64_t>(n));
      const Answer alone = RunSpec(one, {.output = true, .lse = true});
      const int64_t q0 = spec.query_offsets[n], q1 = spec.query_offsets[n + 1];
      const Answer part = {
          .output = Rows(packed.output, spec.query_heads, spec.queries,
                         spec.value_dim, q0, q1),
          .lse = Rows(packed.lse, spec.query_heads, spec.queries, 1, q0, q1),
          .scores = {},
          .weights = {}};
      ASSERT_EQ(CompareBits(alone, part), "") << "item " << n << " of\n"
                                              << spec.Describe();
    }
  }
}

TEST(AttentionMasks, OffsetsThatFallAreRefused) {
  ProblemSpec spec = MeanOfRows(4, 4);
  const auto status = [&spec] {
    return attnd::testing::Run(OwnedProblem::Build(spec)->problem()).status();
  };
  spec.query_offsets = {0, 3, 2, 4};
  spec.key_offsets = {0, 1, 2, 4};
  EXPECT_EQ(status().code(), absl::StatusCode::kInvalidArgument);
  spec.query_offsets = {0, 2, 4};
  EXPECT_EQ(status().code(), absl::StatusCode::kInvalidArgument);
  spec.key_offsets = {0, 2, 5};
  EXPECT_EQ(status().code(), absl::StatusCode::kInvalidArgument);
  spec.key_offsets = {0, 2, 4};
  EXPECT_TRUE(status().ok()) << status();
  spec.key_lengths = {3};
  EXPECT_EQ(status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attnd::testing
