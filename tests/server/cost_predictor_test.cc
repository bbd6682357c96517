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

// As a processor that is shared all of a sudden: ten requests tell.
TEST(CostPredictor, TenRequestsAreEnough) {
  for (const double times : {0.5, 2.0, 3.0}) {
    CostPredictor costs(CostModel({.seconds_per_flop = 1e-9}));
    for (int i = 0; i < 200; ++i) costs.Observe(Gflops(0.01), "a", 0.01);
    for (int i = 0; i < 10; ++i) costs.Observe(Gflops(0.01), "a", 0.01 * times);
    const double factor = costs.Predict(Gflops(1), "a");
    EXPECT_GT(factor, 0.8 * times);
    EXPECT_LT(factor, 1.25 * times);
  }
}

TEST(CostPredictor, OneStrangeMeasurementMovesItByATenthAtMost) {
  for (const int before : {0, 1, 5, 200}) {
    for (const double strange : {1e-6, 0.1, 10.0, 1e6}) {
      CostPredictor costs(
          CostModel({.seconds_per_flop = 1e-9, .seconds_per_pair = 1e-9}));
      const Work work = {.flops = 1e7, .pairs = 1e7};
      for (int i = 0; i < before; ++i) costs.Observe(work, "a", 0.02);
      const double usual = costs.Predict(work, "a");
      costs.Observe(work, "a", strange * 0.02);
      EXPECT_LT(costs.Predict(work, "a"), 1.1 * usual);
      EXPECT_GT(costs.Predict(work, "a"), usual / 1.1);
      // And is forgotten.
      for (int i = 0; i < 20; ++i) costs.Observe(work, "a", 0.02);
      EXPECT_NEAR(costs.Predict(work, "a"), 0.02, 0.001);
    }
  }
}

// Small requests teach what is fixed, large ones what they are full of.
TEST(CostPredictor, AnErrorIsOfWhatThePredictionIsFullOf) {
  CostPredictor costs(
      CostModel({.seconds_per_request = 1e-5, .seconds_per_flop = 1e-9}));
  const Work small = {.requests = 1, .flops = 1e3};
  const Work large = {.requests = 1, .flops = 1e9};
  for (int i = 0; i < 100; ++i) {
    costs.Observe(small, "a", 3e-5);
    costs.Observe(large, "a", 0.5);
  }
  EXPECT_NEAR(costs.Predict(small, "a"), 3e-5, 1e-6);
  EXPECT_NEAR(costs.Predict(large, "a"), 0.5, 0.02);
}

// What was measured of the one says something of the other, in proportion.
TEST(CostPredictor, StaysMonotoneInWork) {
  CostPredictor costs(CostModel({.seconds_per_request = 1e-5,
                                 .seconds_per_flop = 1e-10,
                                 .seconds_per_row = 1e-8}));
  for (int i = 0; i < 50; ++i) {
    const Work work = {
        .requests = 1, .flops = 1e6 * (i % 7), .rows = 100.0 * (i % 3)};
    costs.Observe(work, "a", 1e-5 * (1 + i % 5));
  }
  double last = 0;
  for (const double times : {0.0, 1.0, 2.0, 10.0, 1e3, 1e6}) {
    const double predicted = costs.Predict(
        {.requests = 1, .flops = 1e4 * times, .rows = times}, "a");
    EXPECT_GT(predicted, last);
    last = predicted;
  }
}

TEST(CostPredictor, FactorsTellWhatTheLastPredictionWasMultipliedBy) {
  CostPredictor costs(CostModel({.seconds_per_flop = 1e-9}));
  for (int i = 0; i < 100; ++i) costs.Observe(Gflops(0.01), "a", 0.03);
  for (int i = 0; i < 100; ++i) costs.Observe(Gflops(0.01), "b", 0.005);
  EXPECT_NEAR(costs.factors().at("a"), 3, 0.1);
  EXPECT_NEAR(costs.factors().at("b"), 0.5, 0.02);
}

}  // namespace
}  // namespace attnd::server
