// What is refused only where a query sees it: elements of biases, negative
// lags.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "kernels/plan.h"
#include "tests/kernels/plan_status.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

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

// lag^3 / 6 between one query and the first of two keys.
ProblemSpec CubicOver(int64_t lag, double rate) {
  ProblemSpec spec;
  spec.keys = 2;
  spec.query.assign(4, 1);
  spec.key.assign(8, 1);
  spec.value.assign(8, 1);
  spec.kind = TimeAxis::Kind::kTicks;
  spec.ratio = {.tick_ns = 1, .unit_ns = 1};
  spec.query_ticks = {lag};
  spec.key_ticks = {0, lag};
  spec.encoding.emplace();
  spec.encoding->blocks = {RealJordanBlock{.size = 4, .rates = {rate}}};
  spec.encoding->unit_ns = 1;
  return spec;
}

TEST(Plan, RefusesPowersOfTheLagBeyondFloatsWhereTheyAreVisible) {
  EXPECT_TRUE(PlanStatus(CubicOver(1'000'000'000'000, 0)).ok());
  ProblemSpec spec = CubicOver(864'000'000'000'000, 0);  // ten days
  const absl::Status status = PlanStatus(spec);
  ExpectRefused(status, "query row 0 and key row 0 are 8.64e+14 units apart");
  ExpectRefused(status, "time_unit");
  spec.key_validity = {0, 1};
  EXPECT_TRUE(PlanStatus(spec).ok()) << "nobody sees it";
  spec.key_validity.clear();
  spec.key_ranges = {{.begin_ticks = 1, .end_ticks = 864'000'000'000'000}};
  EXPECT_TRUE(PlanStatus(spec).ok()) << PlanStatus(spec);
  EXPECT_TRUE(PlanStatus(CubicOver(864'000'000'000'000, 1e-9)).ok())
      << "decays before";
  spec = CubicOver(864'000'000'000'000, 0);
  spec.encoding->unit_ns = spec.ratio.unit_ns = 1'000'000'000;
  EXPECT_TRUE(PlanStatus(spec).ok()) << "in seconds";
}

TEST(Plan, TwoSidedEncodingsTakeNegativeLags) {
  ProblemSpec spec = Good();
  spec.encoding = OneSidedAlibi();
  spec.encoding->absolute_lag = true;
  EXPECT_TRUE(PlanStatus(spec).ok()) << PlanStatus(spec);
}

}  // namespace
}  // namespace attnd::testing
