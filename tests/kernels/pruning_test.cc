// Pruning keeps its promise: no row loses more weight than the bound it
// reports, and that bound stays below the tolerance (property P16).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/plan.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

constexpr OutputSet kOutputAndLse = {.output = true, .lse = true};

struct Pruned {
  Answer answer;
  UnitStats stats;
};

Pruned RunPruned(const ProblemSpec& spec, double tolerance,
                 const OutputSet& outputs = kOutputAndLse) {
  Pruned pruned;
  auto owned = OwnedProblem::Build(spec);
  EXPECT_TRUE(owned.ok()) << owned.status();
  if (!owned.ok()) return pruned;
  owned->problem().outputs = outputs;
  owned->problem().prune_tolerance = tolerance;
  const auto plan = Plan::Make(owned->problem());
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return pruned;
  pruned.answer = UnwrittenAnswer(*plan);
  const absl::Status status = RunAll(*plan, ThisThreadsWorkspace(),
                                     BuffersOf(pruned.answer), &pruned.stats);
  EXPECT_TRUE(status.ok()) << status;
  return pruned;
}

// 700 irregular ticks (times of duplicates, too), one second on average.
ProblemSpec LongSeries(uint64_t seed) {
  ProblemSpec spec;
  spec.seed = seed;
  spec.query_heads = spec.kv_heads = 2;
  spec.queries = spec.keys = 700;
  spec.dim = spec.value_dim = 8;
  spec.kind = TimeAxis::Kind::kTicks;
  Random random(seed);
  spec.Fill(random);
  int64_t t = 1'700'000'000'000'000'000;
  for (int64_t j = 0; j < spec.keys; ++j) {
    t += random.Integer(0, 2'000'000'000);
    spec.key_ticks.push_back(t);
  }
  spec.query_ticks = spec.key_ticks;
  spec.causal = true;
  spec.scale = 1 / std::sqrt(8.0f);
  spec.ratio = {.tick_ns = 1, .unit_ns = 1'000'000'000};
  spec.encoding.emplace();
  spec.encoding->unit_ns = 1'000'000'000;
  return spec;
}

struct Family {
  std::string name;
  ProblemSpec spec;
};

std::vector<Family> Families() {
  std::vector<Family> families;
  const auto add = [&](std::string name, auto&& change) {
    ProblemSpec spec = LongSeries(families.size() + 1);
    change(spec);
    families.push_back({std::move(name), std::move(spec)});
  };
  add("alibi", [](ProblemSpec& spec) {
    spec.encoding->biases = {AlibiTerm{.slopes = {0.3, 1.0}}};
  });
  add("alibi, two-sided", [](ProblemSpec& spec) {
    spec.encoding->biases = {
        AlibiTerm{.slopes = {0.3, 1.0}, .two_sided = true}};
    spec.causal = false;
  });
  add("kerple power", [](ProblemSpec& spec) {
    spec.encoding->biases = {
        KerpleTerm{.power = true, .r1 = {1, 2}, .r2 = {0.9, 0.7}}};
  });
  add("fox", [](ProblemSpec& spec) {
    spec.encoding->biases = {CumulativeGateTerm{}};
    Random random(77);
    for (int64_t i = 0; i < 2 * spec.keys; ++i) {
      spec.gates.push_back(static_cast<float>(-random.Uniform()));
    }
  });
  add("rotation and alibi in a window", [](ProblemSpec& spec) {
    spec.encoding->blocks = {RotaryBlock{}};
    spec.encoding->biases = {AlibiTerm{.slopes = {0.3, 1.0}}};
    spec.past_ticks = 300'000'000'000;
  });
  // The logits of far keys vanish; where near ones are large, that is little.
  add("decay", [](ProblemSpec& spec) {
    spec.encoding->blocks = {DecayBlock{.rates = std::vector<double>(8, 0.5)}};
    for (float& q : spec.query) q = 6;
    for (float& k : spec.key) k = 6;
  });
  add("decay beside a polynomial", [](ProblemSpec& spec) {
    spec.encoding->blocks = {RealJordanBlock{
        .size = 2, .rates = std::vector<double>(4, 0.5), .chains = 4}};
    for (float& q : spec.query) q = 6;
    for (float& k : spec.key) k = 6;
  });
  return families;
}

float LargestValue(const ProblemSpec& spec) {
  float largest = 0;
  for (const float v : spec.value) largest = std::max(largest, std::fabs(v));
  return largest;
}

TEST(Pruning, LosesAtMostWhatItReports) {
  for (const Family& family : Families()) {
    SCOPED_TRACE(family.name);
    const ProblemSpec& spec = family.spec;
    const Answer whole = RunSpec(spec, kOutputAndLse);
    const double largest = LargestValue(spec);
    for (const double tolerance : {1e-9, 1e-6, 1e-3, 0.2}) {
      SCOPED_TRACE(tolerance);
      const Pruned pruned = RunPruned(spec, tolerance);
      const double bound = pruned.stats.lost_mass_bound;
      ASSERT_LE(bound, tolerance);
      ASSERT_EQ(pruned.answer.lse.size(), whole.lse.size());
      for (size_t i = 0; i < whole.lse.size(); ++i) {
        const double lost = whole.lse[i] - pruned.answer.lse[i];
        const double rounding = 2e-5 * (1 + std::fabs(whole.lse[i]) / 8);
        ASSERT_GE(lost, -rounding) << "row " << i;
        ASSERT_LE(lost, -std::log1p(-bound) + rounding) << "row " << i;
      }
      for (size_t i = 0; i < whole.output.size(); ++i) {
        ASSERT_NEAR(pruned.answer.output[i], whole.output[i],
                    (2 * bound + 2e-5) * largest)
            << "element " << i;
      }
    }
  }
}

TEST(Pruning, LeavesOutMostOfALongHistory) {
  for (const Family& family : Families()) {
    SCOPED_TRACE(family.name);
    const UnitStats none = RunPruned(family.spec, 0).stats;
    const UnitStats some = RunPruned(family.spec, 1e-3).stats;
    EXPECT_GT(some.skipped_tiles, none.skipped_tiles);
    EXPECT_GT(some.lost_mass_bound, 0);
    EXPECT_EQ(none.lost_mass_bound, 0);
  }
}

// 11 x 11 tiles of 64 by 64 per head; causality hides those above the diagonal.
TEST(Pruning, TilesThatNoRowSeesAreCountedWithoutATolerance) {
  ProblemSpec spec = LongSeries(1);
  spec.encoding.reset();
  for (size_t j = 0; j < spec.key_ticks.size(); ++j) {
    spec.key_ticks[j] = spec.query_ticks[j] = static_cast<int64_t>(j);
  }
  EXPECT_EQ(RunPruned(spec, 0).stats.skipped_tiles, 2 * (11 * 10 / 2));
}

TEST(Pruning, WithoutALargeEnoughBiasNothingIsLeftOut) {
  ProblemSpec spec = LongSeries(1);
  spec.encoding->biases = {AlibiTerm{.slopes = {1e-6, 1e-6}}};
  const Pruned pruned = RunPruned(spec, 1e-6);
  EXPECT_EQ(pruned.stats.lost_mass_bound, 0);
}

TEST(Pruning, ScoresAndWeightsHoldEveryPair) {
  const ProblemSpec spec = Families().front().spec;
  const Pruned pruned = RunPruned(spec, 0.1, kAllOutputs);
  EXPECT_EQ(pruned.stats.lost_mass_bound, 0);
  EXPECT_EQ(CompareBits(pruned.answer, RunSpec(spec)), "");
}

TEST(Pruning, AKeyThatIsNotFiniteIsNeverLeftOut) {
  ProblemSpec spec = Families().front().spec;
  spec.key[0] = std::numeric_limits<float>::quiet_NaN();
  const Pruned pruned = RunPruned(spec, 0.1);
  for (int64_t i = 0; i < spec.queries; ++i) {
    ASSERT_TRUE(std::isnan(pruned.answer.lse[i])) << i;
  }
}

TEST(Pruning, ShiftingAllTimesChangesNoBit) {
  for (const Family& family : Families()) {
    SCOPED_TRACE(family.name);
    ProblemSpec shifted = family.spec;
    for (int64_t& t : shifted.query_ticks) t -= 1'700'000'000'000'000'000;
    for (int64_t& t : shifted.key_ticks) t -= 1'700'000'000'000'000'000;
    EXPECT_EQ(CompareBits(RunPruned(family.spec, 1e-3).answer,
                          RunPruned(shifted, 1e-3).answer),
              "");
  }
}

TEST(Pruning, ToleranceOutsideItsRangeIsRefused) {
  const auto owned = OwnedProblem::Build(LongSeries(1));
  ASSERT_TRUE(owned.ok()) << owned.status();
  for (const double tolerance : {-0.1, 1.0, std::nan("")}) {
    AttentionProblem problem = owned->problem();
    problem.prune_tolerance = tolerance;
    const auto plan = Plan::Make(problem);
    ASSERT_FALSE(plan.ok());
    EXPECT_NE(plan.status().message().find("prune_tolerance"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace attnd::testing
