// What must not change an answer: a shift of time, the layout, the order of
// units, the batch around an item, the order of keys, what else is asked for.
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

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kTrials = 15;
#else
constexpr int kTrials = 60;
#endif
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
  const auto owned = OwnedProblem::Build(spec);
  ASSERT_TRUE(owned.ok()) << owned.status();
  AttentionProblem problem = owned->problem();
  problem.outputs = {.output = true, .lse = true};
  const auto plan = Plan::Make(problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_GE(plan->units().size(), 6u);
  Answer in_order = UnwrittenAnswer(*plan);
  ASSERT_TRUE(RunAll(*plan, ThisThreadsWorkspace(), BuffersOf(in_order)).ok());

  const auto first = Workspace::Create(), second = Workspace::Create();
  ASSERT_TRUE(first.ok() && second.ok());
  std::vector<int64_t> order(plan->units().size());
  std::iota(order.begin(), order.end(), 0);
  for (int trial = 0; trial < 3; ++trial) {
    for (size_t i = order.size(); i-- > 1;) {
      std::swap(order[i], order[random.Integer(0, static_cast<int64_t>(i))]);
    }
    Answer shuffled = UnwrittenAnswer(*plan);
    for (int64_t unit : order) {
      Workspace& workspace = random.Coin() ? **first : **second;
      ASSERT_TRUE(RunUnit(*plan, unit, workspace, BuffersOf(shuffled)).ok());
    }
    FillEmptyRows(*plan, BuffersOf(shuffled));
    EXPECT_EQ(CompareBits(in_order, shuffled), "");
  }
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

// The problem with the keys of every item in another order: new row j is old
// row order[j].
ProblemSpec WithKeyOrder(const ProblemSpec& spec,
                         const std::vector<int64_t>& order) {
  ProblemSpec out = spec;
  const auto permute = [&](auto& values, int64_t outer, int64_t inner) {
    const auto old = values;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t j = 0; j < spec.keys; ++j) {
        for (int64_t c = 0; c < inner; ++c) {
          values[(o * spec.keys + j) * inner + c] =
              old[(o * spec.keys + order[j]) * inner + c];
        }
      }
    }
  };
  permute(out.key, spec.batch * spec.kv_heads, spec.dim);
  permute(out.value, spec.batch * spec.kv_heads, spec.value_dim);
  permute(out.key_ticks,
          static_cast<int64_t>(spec.key_ticks.size()) / spec.keys, 1);
  permute(out.key_real, static_cast<int64_t>(spec.key_real.size()) / spec.keys,
          1);
  if (!spec.key_validity.empty()) permute(out.key_validity, spec.batch, 1);
  if (spec.bias_shape.cols == spec.keys) {
    permute(out.bias, static_cast<int64_t>(spec.bias.size()) / spec.keys, 1);
  }
  return out;
}

// The reference's answer to the problem before its keys were permuted, with the
// columns of the permuted one.
ReferenceAnswer PermutedReference(const ProblemSpec& spec,
                                  const std::vector<int64_t>& order) {
  ReferenceAnswer reference = Reference(spec);
  for (auto* matrix : {&reference.scores, &reference.weights}) {
    const std::vector<double> old = *matrix;
    for (size_t e = 0; e < old.size(); ++e) {
      const size_t row = e / spec.keys * spec.keys;
      (*matrix)[e] = old[row + order[e % spec.keys]];
    }
  }
  return reference;
}

TEST(AttentionInvariance, TheOrderOfKeyValueTimeTriplesDoesNotMatter) {
  int compared = 0;
  for (uint64_t seed = 500; compared < kTrials; ++seed) {
    ProblemSpec spec = RandomProblem(seed, kLimits);
    if (spec.kind == Kind::kPositions) continue;
    ++compared;
    spec.key_lengths.clear();  // lengths go by row
    std::vector<int64_t> order(spec.keys);
    std::iota(order.begin(), order.end(), 0);
    Random random(seed);
    for (int64_t j = spec.keys - 1; j > 0; --j) {
      std::swap(order[j], order[random.Integer(0, j)]);
    }
    const ProblemSpec permuted = WithKeyOrder(spec, order);
    ASSERT_EQ(
        Compare(permuted, RunSpec(permuted), PermutedReference(spec, order)),
        "")
        << spec.Describe();
  }
}

TEST(AttentionInvariance, DuplicatingEveryKeyAddsLogTwoToLse) {
  uint64_t seed = 600;
  for (int trial = 0; trial < kTrials / 4; ++trial, ++seed) {
    ProblemSpec spec = RandomTicks(seed);
    spec.key_lengths.clear();
    spec.bias = {};
    spec.bias_shape = {};
    ReferenceAnswer reference = Reference(spec);
    for (double& lse : reference.lse) lse += std::log(2.0);
    ProblemSpec twice = spec;
    twice.keys *= 2;
    const auto repeat = [](auto& values, int64_t row) {
      const auto old = values;
      values.clear();
      for (size_t r = 0; r < old.size(); r += row) {
        for (int copy = 0; copy < 2; ++copy) {
          values.insert(values.end(), old.begin() + r, old.begin() + r + row);
        }
      }
    };
    repeat(twice.key, spec.dim);
    repeat(twice.value, spec.value_dim);
    repeat(twice.key_ticks, 1);
    repeat(twice.key_validity, 1);
    Answer answer = RunSpec(twice, {.output = true, .lse = true});
    ASSERT_EQ(Compare(spec, answer, reference), "") << spec.Describe();
  }
}

// Softmax over all keys from its halves.
TEST(AttentionInvariance, SplitKeysMergeByLseWithinTheContract) {
  uint64_t seed = 700;
  for (int trial = 0; trial < kTrials / 2; ++trial, ++seed) {
    const ProblemSpec spec = RandomTicks(seed);
    if (spec.keys < 2) continue;
    const ReferenceAnswer reference = Reference(spec);
    Random random(seed);
    const int64_t cut = random.Integer(1, spec.keys - 1);
    std::vector<Answer> parts;
    for (bool late : {false, true}) {
      // Halves by validity, so that times and lengths stay what they are.
      ProblemSpec part = spec;
      part.key_validity.resize(spec.batch * spec.keys, 1);
      for (int64_t b = 0; b < spec.batch; ++b) {
        for (int64_t j = 0; j < spec.keys; ++j) {
          if ((j >= cut) != late) part.key_validity[b * spec.keys + j] = 0;
        }
      }
      parts.push_back(RunSpec(part, {.output = true, .lse = true}));
      parts.back().output = OutputBHLD(spec, parts.back());
    }
    ProblemSpec merged_spec = spec;
    merged_spec.query_layout = Layout::kBHLD;
    Answer merged = parts[0];
    for (size_t r = 0; r < merged.lse.size(); ++r) {
      const double a = parts[0].lse[r], b = parts[1].lse[r];
      const double high = std::max(a, b);
      if (high == -INFINITY) continue;
      const double lse =
          high + std::log(std::exp(a - high) + std::exp(b - high));
      merged.lse[r] = static_cast<float>(lse);
      for (int64_t c = 0; c < spec.value_dim; ++c) {
        const size_t e = r * spec.value_dim + c;
        merged.output[e] =
            static_cast<float>(std::exp(a - lse) * parts[0].output[e] +
                               std::exp(b - lse) * parts[1].output[e]);
      }
    }
    // Two answers and their two lse, each within the contract.
    ASSERT_EQ(Compare(merged_spec, merged, reference, 4), "")
        << spec.Describe();
  }
}

TEST(AttentionInvariance, PermutingHeadsPermutesAnswers) {
  uint64_t seed = 800;
  for (int trial = 0; trial < 5; ++trial, ++seed) {
    ProblemSpec spec = RandomTicks(seed);
    spec.batch = 1;
    spec.query_heads = spec.kv_heads = 2;
    spec.SetLayouts(Layout::kBHLD);
    spec.query_lengths.clear();
    spec.key_lengths.clear();
    spec.key_validity.clear();
    spec.bias = {};
    spec.bias_shape = {};
    spec.query_ticks.resize(spec.queries);
    spec.key_ticks.resize(spec.keys);
    spec.encoding.reset();
    Random random(seed);
    spec.Fill(random);
    Answer answer = RunSpec(spec);
    const auto swap_halves = [](std::vector<float>& v) {
      std::rotate(v.begin(), v.begin() + v.size() / 2, v.end());
    };
    swap_halves(spec.query);
    swap_halves(spec.key);
    swap_halves(spec.value);
    const Answer swapped = RunSpec(spec);
    for (auto* v :
         {&answer.output, &answer.lse, &answer.scores, &answer.weights}) {
      swap_halves(*v);
    }
    EXPECT_EQ(CompareBits(answer, swapped), "") << spec.Describe();
  }
}

TEST(AttentionInvariance, FutureKeysNeverMatterUnderCausality) {
  uint64_t seed = 900;
  for (int trial = 0; trial < kTrials / 2; ++trial, ++seed) {
    ProblemSpec spec = RandomTicks(seed);
    spec.causal = true;
    spec.query_ticks.resize(spec.queries);
    spec.key_ticks.resize(spec.keys);
    const int64_t now =
        *std::max_element(spec.query_ticks.begin(), spec.query_ticks.end());
    // Some keys lie behind every query.
    for (int64_t j = 0; j < spec.keys; j += 3) spec.key_ticks[j] = now + 1 + j;
    const Answer before = RunSpec(spec);
    for (int64_t r = 0; r < spec.batch * spec.kv_heads; ++r) {
      for (int64_t j = 0; j < spec.keys; j += 3) {
        for (int64_t c = 0; c < spec.dim; ++c) {
          spec.key[(r * spec.keys + j) * spec.dim + c] = 1e4f;
        }
        for (int64_t c = 0; c < spec.value_dim; ++c) {
          spec.value[(r * spec.keys + j) * spec.value_dim + c] = -1e4f;
        }
      }
    }
    ASSERT_EQ(CompareBits(before, RunSpec(spec)), "") << spec.Describe();
  }
}

TEST(AttentionInvariance, OutputsAloneAndTogetherKeepTheContract) {
  for (uint64_t seed = 1000; seed < 1000 + kTrials / 3; ++seed) {
    const ProblemSpec spec = RandomProblem(seed, kLimits);
    const ReferenceAnswer reference = Reference(spec);
    for (int wanted = 0; wanted < 16; ++wanted) {
      const OutputSet outputs = {.output = (wanted & 1) != 0,
                                 .lse = (wanted & 2) != 0,
                                 .scores = (wanted & 4) != 0,
                                 .weights = (wanted & 8) != 0};
      const Answer answer = RunSpec(spec, outputs);
      EXPECT_EQ(answer.output.empty(), !outputs.output);
      EXPECT_EQ(answer.scores.empty(), !outputs.scores);
      ASSERT_EQ(Compare(spec, answer, reference), "")
          << "outputs " << wanted << "\n"
          << spec.Describe();
    }
  }
}

TEST(AttentionInvariance, OutputsAloneAndTogetherAreTheSameBits) {
  for (uint64_t seed = 1100; seed < 1100 + kTrials / 3; ++seed) {
    const ProblemSpec spec = RandomProblem(seed, kLimits);
    const Answer all = RunSpec(spec);
    ASSERT_EQ(
        CompareBits({RunSpec(spec, {.output = true}).output,
                     RunSpec(spec, {.output = false, .lse = true}).lse,
                     RunSpec(spec, {.output = false, .scores = true}).scores,
                     RunSpec(spec, {.output = false, .weights = true}).weights},
                    all),
        "")
        << spec.Describe();
  }
}

TEST(AttentionInvariance, ExpOfScoreMinusLseIsTheWeight) {
  for (uint64_t seed = 1200; seed < 1200 + kTrials / 2; ++seed) {
    const ProblemSpec spec = RandomProblem(seed, kLimits);
    const Answer answer = RunSpec(spec);
    double total = 0;
    for (size_t e = 0; e < answer.scores.size(); ++e) {
      const float lse = answer.lse[e / spec.keys];
      const double weight =
          lse == -INFINITY ? 0
                           : std::exp(static_cast<double>(answer.scores[e]) -
                                      static_cast<double>(lse));
      // Half an ulp of both exponents.
      const double bound = 1e-6 + 1.2e-7 * std::abs(static_cast<double>(lse));
      ASSERT_NEAR(answer.weights[e], weight, bound) << "element " << e << "\n"
                                                    << spec.Describe();
      total += answer.weights[e];
      if (e % spec.keys + 1 < static_cast<size_t>(spec.keys)) continue;
      ASSERT_NEAR(total, lse == -INFINITY ? 0 : 1,
                  1e-5 + 1.2e-7 * std::abs(static_cast<double>(lse)) +
                      (lse == -INFINITY ? 0 : spec.keys * 1e-8))
          << "row " << e / spec.keys << "\n"
          << spec.Describe();
      total = 0;
    }
  }
}

}  // namespace
}  // namespace attnd::testing
