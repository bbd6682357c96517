// What a plan is made of: units, work, an identity.
#include "kernels/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/units.h"
#include "tests/kernels/plan_status.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

TEST(Plan, TakesAGoodProblem) {
  const auto owned = OwnedProblem::Build(Good());
  ASSERT_TRUE(owned.ok()) << owned.status();
  const auto plan = Plan::Make(owned->problem());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->output_elements(), 2 * 4 * 3 * 6);
  EXPECT_EQ(plan->lse_elements(), 2 * 4 * 3);
  EXPECT_EQ(plan->score_elements(), 2 * 4 * 3 * 5);
  EXPECT_GT(plan->workspace_bytes(), 0);
  EXPECT_GT(plan->plan_bytes(), 0);
}

TEST(Plan, UnitsCoverEveryRowOfEveryHeadOnce) {
  for (int64_t queries : {1, 127, 128, 129, 3000}) {
    ProblemSpec spec = Good();
    spec.kind = TimeAxis::Kind::kPositions;
    spec.queries = queries;
    Random random(2);
    spec.Fill(random);
    const auto owned = OwnedProblem::Build(spec);
    ASSERT_TRUE(owned.ok()) << owned.status();
    const auto plan = Plan::Make(owned->problem());
    ASSERT_TRUE(plan.ok()) << plan.status();
    std::vector<int> covered(2 * 4 * queries);
    int64_t flops = 0;
    for (const Unit& unit : plan->units()) {
      EXPECT_GT(unit.rows, 0);
      EXPECT_GT(unit.heads, 0);
      flops += unit.flops;
      for (int64_t h = 0; h < unit.heads; ++h) {
        const int64_t head = unit.first_head + h;
        EXPECT_EQ(head / 2, unit.kv_head);
        for (int64_t i = 0; i < unit.rows; ++i) {
          ++covered.at((unit.item * 4 + head) * queries + unit.first_row + i);
        }
      }
    }
    EXPECT_EQ(covered, std::vector<int>(covered.size(), 1)) << queries;
    EXPECT_EQ(plan->flops(), flops);
  }
}

TEST(Plan, FlopsCountAtLeastTheVisiblePairs) {
  ProblemSpec spec = Good();
  const auto owned = OwnedProblem::Build(spec);
  ASSERT_TRUE(owned.ok());
  const auto plan = Plan::Make(owned->problem());
  ASSERT_TRUE(plan.ok());
  EXPECT_GE(plan->flops(), 2 * 2 * 4 * 3 * 5 * (8 + 6));
}

TEST(Plan, LongProblemsAreCutIntoManyUnits) {
  ProblemSpec spec;
  spec.queries = spec.keys = 8192;
  spec.dim = spec.value_dim = 64;
  Random random(3);
  spec.Fill(random);
  const auto owned = OwnedProblem::Build(spec);
  ASSERT_TRUE(owned.ok());
  const auto plan = Plan::Make(owned->problem());
  ASSERT_TRUE(plan.ok());
  EXPECT_GE(plan->units().size(), 20u);
}

// Else a worker would not be free for others before all heads are done.
TEST(Plan, HeadsThatShareKeysAreUnitsOfTheirOwnWhereTogetherTheyTakeLong) {
  ProblemSpec spec;
  spec.query_heads = 6;
  spec.queries = 300;
  spec.keys = 16384;
  spec.dim = spec.value_dim = 16;
  Random random(3);
  spec.Fill(random);
  const auto owned = OwnedProblem::Build(spec);
  ASSERT_TRUE(owned.ok());
  const auto plan = Plan::Make(owned->problem());
  ASSERT_TRUE(plan.ok());
  // 128 rows of one head are 134 Mflop, the last 44 (of 64) half of it.
  const int64_t tile = int64_t{128} * 16384 * 2 * (16 + 16);
  ASSERT_EQ(plan->flops(), 6 * (2 * tile + tile / 2));
  EXPECT_EQ(plan->units().size(), 6u * 2 + 3);
  for (const Unit& unit : plan->units()) {
    EXPECT_EQ(unit.flops, tile);
    EXPECT_EQ(unit.heads, unit.rows == 128 ? 1 : 2);
  }
}

// Planes of biases that one head prepares serve the others while they are kept.
TEST(Plan, HeadsThatShareBiasesVisitTheSameRowsSoonAfterEachOther) {
  ProblemSpec spec;
  spec.batch = 2;
  spec.query_heads = spec.kv_heads = 4;
  spec.queries = spec.keys = 4096;
  spec.dim = spec.value_dim = 64;
  Random random(3);
  spec.Fill(random);
  for (const bool shared : {false, true}) {
    spec.encoding.emplace();
    if (shared) spec.encoding->biases = {SandwichTerm{.dim = 4}};
    const auto owned = OwnedProblem::Build(spec);
    ASSERT_TRUE(owned.ok());
    const auto plan = Plan::Make(owned->problem());
    ASSERT_TRUE(plan.ok());
    std::map<std::vector<int64_t>, int> seen;  // item, head, row
    // Since the first head came to these rows: pairs whose planes were needed.
    std::map<std::pair<int64_t, int64_t>, int64_t> since;
    int64_t pairs = 0, most = 0, switches = 0;
    const Unit* before = nullptr;
    for (const Unit& unit : plan->units()) {
      EXPECT_EQ((++seen[{unit.item, unit.first_head, unit.first_row}]), 1);
      const auto [at, first] =
          since.try_emplace({unit.item, unit.first_row}, pairs);
      if (first) pairs += unit.flops / unit.heads;
      most = std::max(most, pairs - at->second);
      switches += before == nullptr || unit.kv_head != before->kv_head;
      before = &unit;
    }
    // Three of four heads found what the first prepared at most 8 MiB ago.
    const int64_t flops_per_pair = 2 * (64 + 64);
    if (shared) {
      EXPECT_LE(most / flops_per_pair * 4, kRowsTogetherBytes);
      EXPECT_GT(switches, 8);
    } else {
      EXPECT_EQ(switches, 8);
    }
  }
}

TEST(Plan, TakesEmptyBatchRowsAndValues) {
  for (int axis = 0; axis < 4; ++axis) {
    ProblemSpec spec = Good();
    if (axis == 0) spec.batch = 0;
    if (axis == 1) spec.queries = 0, spec.query_ticks = {};
    if (axis == 2) spec.keys = 0, spec.key_ticks = {};
    if (axis == 3) spec.value_dim = 0;
    Random random(1);
    spec.Fill(random);
    EXPECT_TRUE(PlanStatus(spec).ok()) << axis << ": " << PlanStatus(spec);
  }
}

TEST(Plan, CopiesShareAnIdentityThatOtherPlansNeverHave) {
  const auto owned = OwnedProblem::Build(Good());
  ASSERT_TRUE(owned.ok());
  const auto first = Plan::Make(owned->problem());
  const auto second = Plan::Make(owned->problem());
  ASSERT_TRUE(first.ok() && second.ok());
  const auto copy = std::make_unique<Plan>(*first);
  EXPECT_EQ(copy->identity(), first->identity());
  EXPECT_NE(second->identity(), first->identity());
}

}  // namespace
}  // namespace attnd::testing
