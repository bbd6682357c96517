#include "server/cost_predictor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace attnd::server {
namespace {

Work Gflops(double count) { return {.flops = 1e9 * count}; }

// The model of these tests: one second per Gflop.
TEST(CostPredictor, StartsWithTheModel) {
  CostPredictor costs(CostModel({.seconds_per_flop = 1e-9}));
  EXPECT_DOUBLE_EQ(costs.Predict(Gflops(2), "rope"), 2);
  EXPECT_TRUE(costs.factors().empty());
}

TEST(CostPredictor, LearnsWhatAnEncodingCostsAndThatOneAlone) {
  CostPredictor costs(CostModel({.seconds_per_flop = 1e-9}));
  for (int i = 0; i < 1000; ++i) costs.Observe(Gflops(0.01), "phi1", 0.05);
  EXPECT_NEAR(costs.Predict(Gflops(1), "phi1"), 5, 0.1);
  EXPECT_DOUBLE_EQ(costs.Predict(Gflops(1), "rope"), 1);
}

TEST(CostPredictor, FollowsAMachineThatGetsSlowerWithinSecondsOfWork) {
  CostPredictor costs(CostModel({.seconds_per_flop = 1e-9}));
  double worked = 0;
  while (costs.Predict(Gflops(1), "a") < 1.8) {
    costs.Observe(Gflops(0.02), "a", 0.04);
    worked += 0.04;
    ASSERT_LT(worked, 5);
  }
}

// Predictions so high that nobody is admitted are never measured again.
TEST(CostPredictor, AFactorThatKeepsEverybodyOutShrinks) {
  CostPredictor costs(CostModel({.seconds_per_flop = 1e-9}));
  Instant now{std::chrono::hours(1)};
  for (int i = 0; i < 100; ++i) costs.Observe(Gflops(1), "a", 30, now);
  EXPECT_GT(costs.Predict(Gflops(1), "a", now), 25);
  // Nobody asks for an hour: next to nothing is forgotten.
  now += std::chrono::hours(1);
  EXPECT_GT(costs.Predict(Gflops(1), "a", now), 20);
  // Requests come and none ends.
  for (int i = 0; i < 400; ++i) {
    now += std::chrono::milliseconds(10);
    EXPECT_GE(costs.Predict(Gflops(1), "a", now), 1);
  }
  EXPECT_LT(costs.Predict(Gflops(1), "a", now), 1.2);
  // One that costs less than modelled stays.
  for (int i = 0; i < 100; ++i) costs.Observe(Gflops(1), "b", 0.5, now);
  now += std::chrono::hours(1);
  EXPECT_NEAR(costs.Predict(Gflops(1), "b", now), 0.5, 0.01);
}

TEST(CostPredictor, StrangeMeasurementsDoLittle) {
  CostPredictor costs(CostModel({.seconds_per_flop = 1e-9}));
  costs.Observe(Gflops(1e-6), "a", 1e-3);
  EXPECT_LT(costs.Predict(Gflops(1), "a"), 1.1);
  costs.Observe(Gflops(0), "a", 1);
  costs.Observe(Gflops(1), "a", 0);
  costs.Observe(Gflops(1), "a", std::numeric_limits<double>::quiet_NaN());
  costs.Observe(Gflops(1), "a", std::numeric_limits<double>::infinity());
  EXPECT_LT(costs.Predict(Gflops(1), "a"), 1.1);
  for (int i = 0; i < 10000; ++i) costs.Observe(Gflops(1), "a", 1e9);
  EXPECT_DOUBLE_EQ(costs.Predict(Gflops(1), "a"), CostPredictor::kMostFactor);
  for (int i = 0; i < 10000; ++i) costs.Observe(Gflops(1), "a", 1e-9);
  EXPECT_DOUBLE_EQ(costs.Predict(Gflops(1), "a"), CostPredictor::kLeastFactor);
}

}  // namespace
}  // namespace attnd::server
