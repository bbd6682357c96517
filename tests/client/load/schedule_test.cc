// Rates, and the moments that follow from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/load/arrivals.h"
#include "client/load/rate_profile.h"

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> All(Arrivals arrivals) {
  std::vector<int64_t> moments;
  while (const auto moment = arrivals.Next()) moments.push_back(*moment);
  return moments;
}

RateProfile Profile(std::vector<RateSegment> segments) {
  auto profile = RateProfile::Make(std::move(segments));
  EXPECT_TRUE(profile.ok()) << profile.status();
  return *std::move(profile);
}

TEST(RateProfile, MomentsInvertTheIntegral) {
  const RateProfile profile =
      Profile({{2, 10, 10}, {3, 10, 100}, {1, 0, 0}, {2, 50, 0}});
  EXPECT_DOUBLE_EQ(profile.seconds(), 8);
  EXPECT_DOUBLE_EQ(profile.calls(), 20 + 165 + 0 + 50);
  for (double calls = 0; calls < profile.calls(); calls += 0.37) {
    EXPECT_NEAR(profile.CallsUntil(profile.MomentOf(calls)), calls, 1e-9);
  }
  EXPECT_DOUBLE_EQ(profile.RateAt(1), 10);
  EXPECT_DOUBLE_EQ(profile.RateAt(3.5), 55);
  EXPECT_DOUBLE_EQ(profile.RateAt(5.5), 0);
  EXPECT_DOUBLE_EQ(profile.RateAt(8), 0);
}

TEST(RateProfile, NonsenseIsRefused) {
  EXPECT_FALSE(RateProfile::Make({{0, 1, 1}}).ok());
  EXPECT_FALSE(RateProfile::Make({{1, -1, 5}}).ok());
  EXPECT_FALSE(RateProfile::Make({{1, NAN, 5}}).ok());
  EXPECT_FALSE(RateProfile::Make({{1, 1e9, 1e9}}).ok());
  EXPECT_FALSE(RateProfile::Make({{1, 0.5, 0.5}}).ok());
  EXPECT_FALSE(RateProfile::Make({}).ok());
}

TEST(Arrivals, AConstantRateHasEqualGaps) {
  EXPECT_THAT(
      All(Arrivals::Even(Profile({{1, 5, 5}}))),
      ElementsAre(0, 200'000'000, 400'000'000, 600'000'000, 800'000'000));
}

TEST(Arrivals, ALongScheduleNeitherLosesNorGains) {
  const auto moments = All(Arrivals::Even(Profile({{3600, 333, 333}})));
  ASSERT_EQ(moments.size(), 3600u * 333);
  for (size_t k = 0; k < moments.size(); k += 9973) {
    EXPECT_NEAR(static_cast<double>(moments[k]), 1e9 * k / 333.0, 1.0);
  }
}

// A rate that grows as 20 t plans t^2 * 10 calls until t: call k at sqrt(k/10).
TEST(Arrivals, ARampFollowsItsSquareRoot) {
  const auto moments = All(Arrivals::Even(Profile({{10, 0, 200}})));
  ASSERT_EQ(moments.size(), 1000u);
  for (size_t k = 0; k < moments.size(); ++k) {
    EXPECT_NEAR(static_cast<double>(moments[k]), 1e9 * std::sqrt(k / 10.0), 10);
  }
}

TEST(Arrivals, StepsKeepTheirPauses) {
  const auto moments =
      All(Arrivals::Even(Profile({{1, 2, 2}, {5, 0, 0}, {1, 2, 2}})));
  EXPECT_THAT(moments,
              ElementsAre(0, 500'000'000, 6'000'000'000, 6'500'000'000));
}

// Counts in disjoint stretches are Poisson: mean and variance are the
// integral of the rate. Bounds are five standard deviations.
TEST(Arrivals, PoissonCountsHaveMeanAndVarianceOfTheRate) {
  constexpr double kLength = 4000;
  const auto moments = All(Arrivals::Poisson(Profile({{kLength, 20, 20}}), 7));
  std::vector<double> counts(static_cast<size_t>(kLength));
  for (int64_t ns : moments) ++counts[ns / 1'000'000'000];
  double mean = 0;
  for (double count : counts) mean += count / kLength;
  double variance = 0;
  for (double count : counts) {
    variance += (count - mean) * (count - mean) / (kLength - 1);
  }
  EXPECT_NEAR(mean, 20, 5 * std::sqrt(20 / kLength));
  EXPECT_NEAR(variance, 20, 5 * std::sqrt((20 + 2 * 20 * 20) / kLength));
}

// Gaps are exponential: P(gap > t) = exp(-rate t), by Kolmogorov's distance,
// whose 0.1 % point is 1.95 / sqrt(n).
TEST(Arrivals, PoissonGapsAreExponential) {
  const auto moments = All(Arrivals::Poisson(Profile({{100, 100, 100}}), 3));
  std::vector<double> gaps;
  for (size_t i = 1; i < moments.size(); ++i) {
    gaps.push_back(1e-9 * static_cast<double>(moments[i] - moments[i - 1]));
  }
  std::sort(gaps.begin(), gaps.end());
  double distance = 0;
  for (size_t i = 0; i < gaps.size(); ++i) {
    const double expected = 1 - std::exp(-100 * gaps[i]);
    distance = std::max(
        distance,
        std::abs(static_cast<double>(i) / static_cast<double>(gaps.size()) -
                 expected));
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(static_cast<double>(gaps.size())));
}

TEST(Arrivals, PoissonFollowsTheProfile) {
  const auto moments =
      All(Arrivals::Poisson(Profile({{100, 10, 10}, {100, 0, 300}}), 5));
  const auto middle =
      std::lower_bound(moments.begin(), moments.end(), 100'000'000'000);
  const auto first = static_cast<double>(middle - moments.begin());
  const auto second = static_cast<double>(moments.end() - middle);
  EXPECT_NEAR(first, 1000, 5 * std::sqrt(1000));
  EXPECT_NEAR(second, 15000, 5 * std::sqrt(15000));
}

TEST(Arrivals, ASeedMeansTheSameMoments) {
  const auto moments = [](uint64_t seed) {
    return All(Arrivals::Poisson(Profile({{10, 10, 10}}), seed));
  };
  EXPECT_EQ(moments(1), moments(1));
  EXPECT_NE(moments(1), moments(2));
}

constexpr TimeFormat kSeconds = {.epoch_unit_ns = 1'000'000'000};

TEST(ParseMoments, AreRelativeToTheFirstAndSpedUp) {
  const char kText[] =
      "# recorded\n1700000000.25\n1700000000.75 # late\n\n"
      "1700000002.25\n";
  EXPECT_THAT(*ParseMoments(kText, kSeconds, 1),
              ElementsAre(0, 500'000'000, 2'000'000'000));
  EXPECT_THAT(*ParseMoments(kText, kSeconds, 2),
              ElementsAre(0, 250'000'000, 1'000'000'000));
}

// float64 seconds of this epoch are 238 ns apart.
TEST(ParseMoments, NanosecondsOfTodayStayExact) {
  EXPECT_THAT(*ParseMoments("1767225600000000001\n1767225600000000004\n",
                            {.epoch_unit_ns = 1}, 1),
              ElementsAre(0, 3));
}

TEST(ParseMoments, SaysWhichLineIsWrong) {
  const auto refusal = [](const char* text) {
    return std::string(ParseMoments(text, kSeconds, 1).status().message());
  };
  EXPECT_THAT(refusal("1\nx\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("2\n1\n"), HasSubstr("before the line above"));
  EXPECT_THAT(refusal("# nothing\n"), HasSubstr("no moment"));
  EXPECT_THAT(refusal("1e300\n"), HasSubstr("line 1"));
}

TEST(ParseSteps, AreRatesWithTheirLengths) {
  const auto steps = ParseSteps("100:10s,250.5:500ms");
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[1].begin_rate, 250.5);
  EXPECT_EQ((*steps)[1].end_rate, 250.5);
  EXPECT_EQ((*steps)[1].seconds, 0.5);
  EXPECT_FALSE(ParseSteps("100").ok());
  EXPECT_FALSE(ParseSteps("100:10").ok());
  EXPECT_EQ(ParseRamp("10:500", 4)->end_rate, 500);
  EXPECT_FALSE(ParseRamp("10-500", 4).ok());
}

}  // namespace
}  // namespace attnd::client
