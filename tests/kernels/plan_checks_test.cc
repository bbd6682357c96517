// Problems whose parts do not fit each other are refused by name.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/plan.h"
#include "tests/kernels/plan_status.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

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

}  // namespace
}  // namespace attnd::testing
