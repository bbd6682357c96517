#include "kernels/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// B2 H4/2 Lq3 Lk5 D8 Dv6 on ticks, all good.
ProblemSpec Good() {
  ProblemSpec spec;
  spec.batch = 2;
  spec.query_heads = 4;
  spec.kv_heads = 2;
  spec.queries = 3;
  spec.keys = 5;
  spec.dim = 8;
  spec.value_dim = 6;
  Random random(1);
  spec.Fill(random);
  spec.kind = TimeAxis::Kind::kTicks;
  spec.query_ticks = {10, 20, 30};
  spec.key_ticks = {0, 10, 20, 30, 40};
  return spec;
}

absl::Status PlanStatus(const AttentionProblem& problem) {
  return Plan::Make(problem).status();
}

absl::Status PlanStatus(const ProblemSpec& spec) {
  const auto owned = OwnedProblem::Build(spec);
  if (!owned.ok()) {
    ADD_FAILURE() << "not refused by the plan but before: " << owned.status();
    return owned.status();
  }
  return PlanStatus(owned->problem());
}

void ExpectRefused(const absl::Status& status, const std::string& field) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
  EXPECT_THAT(std::string(status.message()), HasSubstr(field));
}

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

TEST(Plan, RefusesZeroHeadsOrHeadDimension) {
  for (int axis = 0; axis < 3; ++axis) {
    ProblemSpec spec = Good();
    if (axis == 0) spec.query_heads = 0;
    if (axis == 1) spec.kv_heads = 0;
    if (axis == 2) spec.dim = 0;
    Random random(1);
    spec.Fill(random);
    ExpectRefused(PlanStatus(spec), axis == 2 ? "dim" : "heads");
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

TEST(Plan, RefusesHeadsThatDoNotDivide) {
  ProblemSpec spec = Good();
  spec.query_heads = 3;
  Random random(1);
  spec.Fill(random);
  ExpectRefused(PlanStatus(spec), "heads");
}

// The problem of `spec` with one tensor from another.
TEST(Plan, RefusesTensorsThatDisagree) {
  const auto good = OwnedProblem::Build(Good());
  ASSERT_TRUE(good.ok());
  const auto changed = [](auto change) {
    ProblemSpec spec = Good();
    spec.kind = TimeAxis::Kind::kPositions;
    change(spec);
    Random random(1);
    spec.Fill(random);
    return *OwnedProblem::Build(spec);
  };
  const OwnedProblem batch = changed([](ProblemSpec& s) { s.batch = 1; });
  const OwnedProblem dim = changed([](ProblemSpec& s) { s.dim = 16; });
  const OwnedProblem rows = changed([](ProblemSpec& s) { s.keys = 4; });
  const OwnedProblem heads = changed([](ProblemSpec& s) { s.kv_heads = 1; });
  for (const OwnedProblem* other : {&batch, &dim}) {
    AttentionProblem problem = good->problem();
    problem.key = other->problem().key;
    ExpectRefused(PlanStatus(problem), "key");
  }
  for (const OwnedProblem* other : {&batch, &rows, &heads}) {
    AttentionProblem problem = good->problem();
    problem.value = other->problem().value;
    ExpectRefused(PlanStatus(problem), "value");
  }
}

TEST(Plan, RefusesAScaleThatIsNotFinite) {
  for (float scale : {kNaN, kInfinity, -kInfinity}) {
    ProblemSpec spec = Good();
    spec.scale = scale;
    ExpectRefused(PlanStatus(spec), "scale");
  }
}

TEST(Plan, RefusesAxesOfDifferentKinds) {
  const auto ticks = OwnedProblem::Build(Good());
  ProblemSpec spec = Good();
  spec.kind = TimeAxis::Kind::kReal;
  spec.query_real = {1, 2, 3};
  spec.key_real = {1, 2, 3, 4, 5};
  const auto real = OwnedProblem::Build(spec);
  ASSERT_TRUE(ticks.ok() && real.ok());
  for (const TimeAxis& other : {real->problem().query_time, TimeAxis()}) {
    AttentionProblem problem = ticks->problem();
    problem.query_time = other;
    ExpectRefused(PlanStatus(problem), "time");
  }
  AttentionProblem problem = ticks->problem();
  problem.key_time = TimeAxis();
  ExpectRefused(PlanStatus(problem), "time");
}

TEST(Plan, RefusesTimesForAnotherNumberOfRows) {
  const auto good = OwnedProblem::Build(Good());
  ASSERT_TRUE(good.ok());
  AttentionProblem problem = good->problem();
  std::swap(problem.query_time, problem.key_time);
  ExpectRefused(PlanStatus(problem), "time");
}

TEST(Plan, RefusesTimesPerItemForAnotherBatch) {
  ProblemSpec spec = Good();
  spec.batch = 3;
  spec.query_ticks = std::vector<int64_t>(9, 1);
  spec.key_ticks = std::vector<int64_t>(15, 1);
  Random random(1);
  spec.Fill(random);
  const auto three = OwnedProblem::Build(spec);
  const auto good = OwnedProblem::Build(Good());
  ASSERT_TRUE(three.ok() && good.ok());
  AttentionProblem problem = good->problem();
  problem.query_time = three->problem().query_time;
  ExpectRefused(PlanStatus(problem), "query_time");
  problem = good->problem();
  problem.key_time = three->problem().key_time;
  ExpectRefused(PlanStatus(problem), "key_time");
}

TEST(Plan, RefusesLengthsThatDoNotFit) {
  const std::vector<std::vector<int64_t>> wrong = {
      {1}, {1, 2, 3}, {-1, 1}, {0, 99}};
  for (const std::vector<int64_t>& lengths : wrong) {
    ProblemSpec spec = Good();
    spec.query_lengths = lengths;
    ExpectRefused(PlanStatus(spec), "query_lengths");
    spec = Good();
    spec.key_lengths = lengths;
    ExpectRefused(PlanStatus(spec), "key_lengths");
  }
}

TEST(Plan, RefusesValidityOfAnotherSize) {
  for (size_t size : {1, 5, 9, 11}) {
    ProblemSpec spec = Good();
    spec.key_validity = std::vector<char>(size, 1);
    ExpectRefused(PlanStatus(spec), "key_validity");
  }
}

TEST(Plan, RefusesNegativeWindows) {
  for (int64_t bound : {int64_t{-1}, INT64_MIN}) {
    ProblemSpec spec = Good();
    spec.past_ticks = bound;
    ExpectRefused(PlanStatus(spec), "past_ticks");
    spec = Good();
    spec.future_ticks = bound;
    ExpectRefused(PlanStatus(spec), "future_ticks");
  }
  ProblemSpec real = Good();
  real.kind = TimeAxis::Kind::kReal;
  real.query_real = {1, 2, 3};
  real.key_real = {1, 2, 3, 4, 5};
  for (double bound : {-0.5, std::numeric_limits<double>::quiet_NaN()}) {
    ProblemSpec spec = real;
    spec.past_time = bound;
    ExpectRefused(PlanStatus(spec), "past_time");
    spec = real;
    spec.future_time = bound;
    ExpectRefused(PlanStatus(spec), "future_time");
  }
}

TEST(Plan, RefusesTimesThatAreNotFiniteAndSpansThatDoNotFit) {
  ProblemSpec spec = Good();
  spec.key_ticks = {INT64_MIN, 0, 0, 0, 0};
  ExpectRefused(PlanStatus(spec), "key_time");
  spec.kind = TimeAxis::Kind::kReal;
  spec.query_real = {1, 2, 3};
  for (double bad : {double{kNaN}, double{kInfinity}}) {
    spec.key_real = {1, 2, bad, 4, 5};
    ExpectRefused(PlanStatus(spec), "key_time");
  }
}

TEST(Plan, NamesTheItemAndRowOfABadTime) {
  ProblemSpec spec = Good();
  spec.kind = TimeAxis::Kind::kReal;
  spec.query_real = {1, 2, 3, 4, double{kNaN}, 6};
  spec.key_real = std::vector<double>(5, 1);
  const absl::Status status = PlanStatus(spec);
  ExpectRefused(status, "query_time");
  ExpectRefused(status, "item 1");
  ExpectRefused(status, "row 1");
}

TEST(Plan, RefusesAnEncoderForOtherSizes) {
  for (const EncoderSizes& sizes :
       {EncoderSizes{16, 4, 2}, EncoderSizes{8, 2, 2}, EncoderSizes{8, 4, 4}}) {
    auto owned = OwnedProblem::Build(Good());
    ASSERT_TRUE(owned.ok());
    AttentionProblem problem = owned->problem();
    problem.encoder = *Encoder::Compile({}, sizes, {});
    ExpectRefused(PlanStatus(problem), "encoding");
  }
}

TEST(Plan, RefusesBiasExtentsThatDoNotBroadcast) {
  const Shape4 full{2, 4, 3, 5};
  for (Shape4 shape :
       {Shape4{3, 4, 3, 5}, Shape4{2, 2, 3, 5}, Shape4{2, 4, 2, 5},
        Shape4{2, 4, 3, 4}, Shape4{0, 4, 3, 5}, Shape4{1, 1, 1, 0}}) {
    ProblemSpec spec = Good();
    spec.bias_shape = shape;
    spec.bias.resize(shape.batch * shape.heads * shape.rows * shape.cols);
    ExpectRefused(PlanStatus(spec), "bias");
  }
  for (int ones = 0; ones < 16; ++ones) {
    Shape4 shape = full;
    if (ones & 1) shape.batch = 1;
    if (ones & 2) shape.heads = 1;
    if (ones & 4) shape.rows = 1;
    if (ones & 8) shape.cols = 1;
    ProblemSpec spec = Good();
    spec.bias_shape = shape;
    spec.bias.resize(shape.batch * shape.heads * shape.rows * shape.cols);
    EXPECT_TRUE(PlanStatus(spec).ok()) << ones << ": " << PlanStatus(spec);
  }
}

TEST(Plan, RefusesABiasOfNaNOrInfinityWhereItIsVisibleOnly) {
  for (float bad : {kNaN, kInfinity}) {
    ProblemSpec spec = Good();
    spec.causal = true;
    spec.bias_shape = {1, 1, 3, 5};
    spec.bias = std::vector<float>(15);
    spec.bias[0 * 5 + 2] = bad;  // key at 20, query at 10: hidden
    EXPECT_TRUE(PlanStatus(spec).ok()) << PlanStatus(spec);
    spec.bias[1 * 5 + 2] = bad;
    const absl::Status status = PlanStatus(spec);
    ExpectRefused(status, "bias");
    ExpectRefused(status, "[0,0,1,2]");
    spec.key_validity = {1, 1, 0, 1, 1, 1, 1, 0, 1, 1};
    EXPECT_TRUE(PlanStatus(spec).ok()) << PlanStatus(spec);
  }
}

TEST(Plan, TakesABiasOfMinusInfinity) {
  ProblemSpec spec = Good();
  spec.bias_shape = {1, 1, 1, 5};
  spec.bias = std::vector<float>(5, -kInfinity);
  EXPECT_TRUE(PlanStatus(spec).ok()) << PlanStatus(spec);
}

EncodingSpec OneSidedAlibi() {
  EncodingSpec encoding;
  encoding.biases = {AlibiTerm{.slopes = {1}}};
  return encoding;
}

TEST(Plan, RefusesVisibleNegativeLagsUnderAOneSidedEncoding) {
  ProblemSpec spec = Good();
  spec.encoding = OneSidedAlibi();
  const absl::Status status = PlanStatus(spec);
  // The first query, at 10, sees the key at 20.
  ExpectRefused(status, "query row 0 and key row 2");
  // Both remedies.
  ExpectRefused(status, "causal");
  ExpectRefused(status, "two_sided");
  spec.causal = true;
  EXPECT_TRUE(PlanStatus(spec).ok()) << PlanStatus(spec);
}

TEST(Plan, NegativeLagsThatNobodySeesAreNoReasonToRefuse) {
  ProblemSpec spec = Good();
  spec.encoding = OneSidedAlibi();
  spec.future_ticks = 0;
  EXPECT_TRUE(PlanStatus(spec).ok()) << PlanStatus(spec);
  spec = Good();
  spec.encoding = OneSidedAlibi();
  spec.key_lengths = {2, 2};
  EXPECT_TRUE(PlanStatus(spec).ok()) << PlanStatus(spec);
  spec.key_lengths = {2, 3};
  EXPECT_FALSE(PlanStatus(spec).ok());
}

TEST(Plan, TwoSidedEncodingsTakeNegativeLags) {
  ProblemSpec spec = Good();
  spec.encoding = OneSidedAlibi();
  spec.encoding->absolute_lag = true;
  EXPECT_TRUE(PlanStatus(spec).ok()) << PlanStatus(spec);
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
