// What must not change an answer: a shift of time, the layout, the order of
// units, the batch around an item. attention_keys_test.cc has the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"
#include "tests/kernels/random_problem.h"
#include "tests/kernels/unit_order.h"

namespace attnd::testing {
namespace {

using Kind = TimeAxis::Kind;

constexpr int kTrials = kSanitized ? 15 : 60;
constexpr OutputSet kOutputAndLse = {.output = true, .lse = true};
constexpr RandomLimits kLimits = {.pairs = 30'000, .max_rows = 300};

// Random problems of one kind of time.
ProblemSpec RandomOf(Kind kind, uint64_t& seed) {
  for (;; ++seed) {
    ProblemSpec spec = RandomProblem(seed, kLimits);
    if (spec.kind == kind) return spec;
  }
}

ProblemSpec RandomTicks(uint64_t& seed) { return RandomOf(Kind::kTicks, seed); }

TEST(AttentionInvariance, ShiftingAllTicksChangesNoBit) {
  uint64_t seed = 1;
  for (int trial = 0; trial < kTrials; ++trial, ++seed) {
    const ProblemSpec spec = RandomTicks(seed);
    const Answer answer = RunSpec(spec);
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (const auto* times : {&spec.query_ticks, &spec.key_ticks}) {
      const auto [a, b] = std::minmax_element(times->begin(), times->end());
      low = std::min(low, *a);
      high = std::max(high, *b);
    }
    for (int64_t target : {INT64_MIN, INT64_MAX - (high - low), int64_t{-1},
                           -(high - low), int64_t{12345}}) {
      ProblemSpec moved = spec;
      for (auto* times : {&moved.query_ticks, &moved.key_ticks}) {
        for (int64_t& t : *times) t = (t - low) + target;
      }
      ASSERT_EQ(CompareBits(answer, RunSpec(moved)), "")
          << "earliest time " << target << "\n"
          << spec.Describe();
    }
  }
}

TEST(AttentionInvariance, PositionsAreTicksOfOneUnit) {
  uint64_t seed = 100;
  for (int trial = 0; trial < kTrials / 4; ++trial, ++seed) {
    ProblemSpec spec = RandomOf(Kind::kPositions, seed);
    spec.query_lengths.clear();
    spec.key_lengths.clear();
    ProblemSpec ticks = spec;
    ticks.kind = Kind::kTicks;
    ticks.query_ticks.resize(spec.queries);
    ticks.key_ticks.resize(spec.keys);
    std::iota(ticks.query_ticks.begin(), ticks.query_ticks.end(),
              spec.keys - spec.queries);
    std::iota(ticks.key_ticks.begin(), ticks.key_ticks.end(), 0);
    EXPECT_EQ(CompareBits(RunSpec(spec), RunSpec(ticks)), "")
        << spec.Describe();
  }
}

TEST(AttentionInvariance, LayoutOfAnyTensorChangesNoBit) {
  uint64_t seed = 200;
  for (int trial = 0; trial < kTrials / 4; ++trial, ++seed) {
    ProblemSpec spec = RandomProblem(seed, kLimits);
    spec.SetLayouts(Layout::kBHLD);
    Answer plain = RunSpec(spec);
    for (int layouts = 1; layouts < 8; ++layouts) {
      const auto layout = [&](int bit) {
        return layouts & bit ? Layout::kBLHD : Layout::kBHLD;
      };
      spec.query_layout = layout(1);
      spec.key_layout = layout(2);
      spec.value_layout = layout(4);
      Answer other = RunSpec(spec);
      other.output = OutputBHLD(spec, other);
      ASSERT_EQ(CompareBits(plain, other), "") << spec.Describe();
    }
  }
}

// q and k with the channels of half-split pairs moved to interleaved places.
std::vector<float> Interleaved(const std::vector<float>& rows, int64_t dim) {
  std::vector<float> out(rows.size());
  for (size_t r = 0; r < rows.size(); r += dim) {
    for (int64_t j = 0; j < dim / 2; ++j) {
      out[r + 2 * j] = rows[r + j];
      out[r + 2 * j + 1] = rows[r + j + dim / 2];
    }
  }
  return out;
}

TEST(AttentionInvariance, PairLayoutsAreAPermutationOfChannels) {
  for (int64_t dim : {2, 6, 16, 64, 66, 130}) {
    Random random(dim);
    ProblemSpec half;
    half.queries = half.keys = 70;
    half.dim = dim;
    half.Fill(random);
    half.scale = static_cast<float>(1 / std::sqrt(dim));
    SetRandomTimes(random, Kind::kTicks, false, 1e5, half);
    half.ratio = {.tick_ns = 1, .unit_ns = 1'000'000'000};
    half.encoding.emplace();
    half.encoding->blocks = {RotaryBlock{}};
    ProblemSpec pairs = half;
    pairs.encoding->blocks = {RotaryBlock{.layout = PairLayout::kInterleaved}};
    pairs.query = Interleaved(half.query, dim);
    pairs.key = Interleaved(half.key, dim);
    // Both against one reference: sums may come in another order.
    const ReferenceAnswer reference = Reference(half);
    EXPECT_EQ(Compare(half, RunSpec(half), reference), "") << dim;
    EXPECT_EQ(Compare(pairs, RunSpec(pairs), reference), "") << dim;
  }
}

TEST(AttentionInvariance, UnitsInAnyOrderOnTwoWorkspacesGiveTheSameBytes) {
  ProblemSpec spec;
  spec.batch = 2;
  spec.query_heads = 4;
  spec.kv_heads = 2;
  spec.queries = spec.keys = 1500;
  spec.dim = spec.value_dim = 64;
  Random random(31);
  spec.Fill(random);
  SetRandomTimes(random, Kind::kTicks, true, 1e4, spec);
  spec.ratio = {.tick_ns = 1, .unit_ns = 1'000'000'000};
  spec.encoding.emplace();
  spec.encoding->blocks = {RotaryBlock{}};
  spec.encoding->biases = {AlibiTerm{}};
  spec.causal = true;
  ExpectTheSameBytesInAnyOrder(spec, kOutputAndLse, 6, random);
}

TEST(AttentionInvariance, SomeHeadsOfThoseThatShareKeysGiveTheSameBytes) {
  ProblemSpec spec;
  spec.query_heads = 7;
  spec.queries = 150;
  spec.keys = 10000;
  spec.dim = spec.value_dim = 16;
  Random random(32);
  spec.Fill(random);
  SetRandomTimes(random, Kind::kTicks, true, 1e4, spec);
  spec.ratio = {.tick_ns = 1, .unit_ns = 1'000'000'000};
  spec.encoding.emplace();
  spec.encoding->blocks = {RotaryBlock{}};
  // 128 rows in 3 or more parts of the heads, the others in another.
  ExpectTheSameBytesInAnyOrder(spec, kOutputAndLse, 4, random);
}

TEST(AttentionInvariance, ProblemsInterleavedOnOneWorkspaceDoNotMix) {
  std::vector<ProblemSpec> specs;
  std::vector<Answer> alone;
  for (uint64_t seed = 300; seed < 308; ++seed) {
    specs.push_back(RandomProblem(seed, kLimits));
    alone.push_back(RunSpec(specs.back()));
  }
  Random random(5);
  for (int trial = 0; trial < 3 * static_cast<int>(specs.size()); ++trial) {
    const int64_t s = random.Integer(0, static_cast<int64_t>(specs.size()) - 1);
    ASSERT_EQ(CompareBits(alone[s], RunSpec(specs[s])), "")
        << specs[s].Describe();
  }
}

// Two heads with RoPE, causal over the last 40 keys, one every `step` ticks;
// the queries stand where the last keys do.
ProblemSpec RecentOnes(int64_t queries, int64_t keys, int64_t step) {
  ProblemSpec spec;
  spec.query_heads = spec.kv_heads = 2;
  spec.queries = queries;
  spec.keys = keys;
  spec.dim = 64;
  spec.value_dim = 8;
  Random random(queries + keys);
  spec.Fill(random);
  spec.kind = Kind::kTicks;
  for (int64_t j = 0; j < keys; ++j) spec.key_ticks.push_back(j * step);
  spec.query_ticks = {spec.key_ticks.end() - queries, spec.key_ticks.end()};
  spec.encoding = EncodingSpec{};
  spec.encoding->blocks = {RotaryBlock{}};
  spec.causal = true;
  spec.past_ticks = 40 * step;
  return spec;
}

// Short items share their phases, long ones do not; queries stand where keys do
// or elsewhere.
TEST(AttentionInvariance, PlansThatTakeTurnsOnOneWorkspaceDoNotMix) {
  std::vector<OwnedProblem> owned;
  std::vector<Plan> plans;
  std::vector<Answer> alone, mixed;
  for (const auto& [queries, keys] : std::vector<std::pair<int64_t, int64_t>>{
           {300, 300}, {1, 8200}, {1, 300}, {8200, 8200}, {3000, 3000}}) {
    const auto step = static_cast<int64_t>(owned.size() + 1);
    auto problem = OwnedProblem::Build(RecentOnes(queries, keys, step));
    ASSERT_TRUE(problem.ok()) << problem.status();
    owned.push_back(*std::move(problem));
    auto plan = Plan::Make(owned.back().problem());
    ASSERT_TRUE(plan.ok()) << plan.status();
    plans.push_back(*std::move(plan));
    alone.push_back(UnwrittenAnswer(plans.back()));
    mixed.push_back(alone.back());
    const auto own = Workspace::Create();
    ASSERT_TRUE(own.ok());
    ASSERT_TRUE(RunAll(plans.back(), **own, BuffersOf(alone.back())).ok());
  }
  const auto workspace = Workspace::Create();
  ASSERT_TRUE(workspace.ok());
  Random random(8);
  std::vector<int64_t> next(plans.size(), 0);
  for (int turn = 0; turn < 300; ++turn) {
    const int64_t p = random.Integer(0, static_cast<int64_t>(plans.size()) - 1);
    const auto units = static_cast<int64_t>(plans[p].units().size());
    ASSERT_TRUE(
        RunUnit(plans[p], next[p]++ % units, **workspace, BuffersOf(mixed[p]))
            .ok());
    if (next[p] < units) continue;
    ASSERT_EQ(CompareBits(alone[p], mixed[p]), "")
        << "plan " << p << ", turn " << turn;
  }
}

// Item b of the problem, alone.
ProblemSpec OnlyItem(const ProblemSpec& spec, int64_t b) {
  ProblemSpec one = spec;
  one.batch = 1;
  const auto take = [b, &spec](auto& values) {
    const size_t share = values.size() / spec.batch;
    values = {values.begin() + b * share, values.begin() + (b + 1) * share};
  };
  take(one.query);
  take(one.key);
  take(one.value);
  for (auto* rows : {&one.query_ticks, &one.key_ticks}) {
    const bool queries = rows == &one.query_ticks;
    const auto shared = static_cast<size_t>(queries ? spec.queries : spec.keys);
    if (rows->size() != shared) take(*rows);
  }
  for (auto* rows : {&one.query_real, &one.key_real}) {
    const bool queries = rows == &one.query_real;
    const auto shared = static_cast<size_t>(queries ? spec.queries : spec.keys);
    if (rows->size() != shared) take(*rows);
  }
  take(one.query_lengths);
  take(one.key_lengths);
  take(one.key_validity);
  if (one.bias_shape.batch > 1) {
    take(one.bias);
    one.bias_shape.batch = 1;
  }
  return one;
}

std::vector<float> Share(const std::vector<float>& values, int64_t b,
                         int64_t batch) {
  const size_t share = values.size() / batch;
  return {values.begin() + b * share, values.begin() + (b + 1) * share};
}

TEST(AttentionInvariance, AnItemsBytesDoNotDependOnItsBatch) {
  int compared = 0;
  for (uint64_t seed = 400; compared < kTrials / 2; ++seed) {
    const ProblemSpec spec = RandomProblem(seed, kLimits);
    if (spec.batch == 1) continue;
    ++compared;
    const Answer together = RunSpec(spec);
    for (int64_t b = 0; b < spec.batch; ++b) {
      const Answer alone = RunSpec(OnlyItem(spec, b));
      const Answer part = {Share(together.output, b, spec.batch),
                           Share(together.lse, b, spec.batch),
                           Share(together.scores, b, spec.batch),
                           Share(together.weights, b, spec.batch)};
      ASSERT_EQ(CompareBits(alone, part), "") << "item " << b << " of\n"
                                              << spec.Describe();
    }
  }
}

}  // namespace
}  // namespace attnd::testing
