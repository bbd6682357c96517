// What keys in another order, twice or in two parts do to an answer, and that
// it is the same whatever else is asked for.
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

constexpr int kTrials = kSanitized ? 15 : 60;
constexpr RandomLimits kLimits = {.pairs = 30'000, .max_rows = 300};

ProblemSpec RandomTicks(uint64_t& seed) {
  for (;; ++seed) {
    ProblemSpec spec = RandomProblem(seed, kLimits);
    if (spec.kind == Kind::kTicks) return spec;
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

TEST(AttentionKeys, TheOrderOfKeyValueTimeTriplesDoesNotMatter) {
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

TEST(AttentionKeys, DuplicatingEveryKeyAddsLogTwoToLse) {
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
TEST(AttentionKeys, SplitKeysMergeByLseWithinTheContract) {
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

TEST(AttentionKeys, PermutingHeadsPermutesAnswers) {
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

TEST(AttentionKeys, FutureKeysNeverMatterUnderCausality) {
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

TEST(AttentionKeys, OutputsAloneAndTogetherKeepTheContract) {
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

// Scores and lse are summed more exactly than output and weights need.
TEST(AttentionKeys, OutputsAloneAndTogetherAreTheSameBits) {
  for (uint64_t seed = 1100; seed < 1100 + kTrials / 3; ++seed) {
    const ProblemSpec spec = RandomProblem(seed, kLimits);
    const Answer all = RunSpec(spec);
    const Answer with_lse = RunSpec(spec, {.output = true, .lse = true});
    EXPECT_EQ(
        CompareBits(
            {with_lse.output, RunSpec(spec, {.output = false, .lse = true}).lse,
             RunSpec(spec, {.output = false, .scores = true}).scores,
             RunSpec(spec, {.lse = true, .weights = true}).weights},
            all),
        "")
        << spec.Describe();
    const Answer both = RunSpec(spec, {.output = true, .weights = true});
    EXPECT_EQ(
        CompareBits({RunSpec(spec, {.output = true}).output,
                     {},
                     {},
                     RunSpec(spec, {.output = false, .weights = true}).weights},
                    both),
        "")
        << spec.Describe();
  }
}

TEST(AttentionKeys, ExpOfScoreMinusLseIsTheWeightAndARowSumsToOne) {
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
      // Half an ulp of score and lse, where the weight is not negligible.
      const double bound = 1e-6 + 1.2e-7 * std::abs(static_cast<double>(lse));
      ASSERT_NEAR(answer.weights[e], weight, bound) << "element " << e << "\n"
                                                    << spec.Describe();
      total += answer.weights[e];
      if (e % spec.keys + 1 < static_cast<size_t>(spec.keys)) continue;
      ASSERT_NEAR(total, lse == -INFINITY ? 0 : 1, 2e-6)
          << "row " << e / spec.keys << "\n"
          << spec.Describe();
      total = 0;
    }
  }
}

}  // namespace
}  // namespace attnd::testing
