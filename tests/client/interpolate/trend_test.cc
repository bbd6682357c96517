#include "client/interpolate/trend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "client/random.h"

namespace attnd::client {
namespace {

using ::testing::HasSubstr;

TEST(Trend, ReproducesAPolynomialOfItsDegree) {
  // Epoch nanoseconds over 40 years, a cubic in years since 1980.
  constexpr double kYear = 365.25 * 86400e9;
  constexpr int64_t kOrigin = 315'532'800'000'000'000;
  const auto cubic = [&](int64_t t) {
    const double y = static_cast<double>(t - kOrigin) / kYear;
    return 340 + 1.3 * y + 0.02 * y * y - 1e-4 * y * y * y;
  };
  std::vector<int64_t> times;
  std::vector<double> values;
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    times.push_back(kOrigin - static_cast<int64_t>(20 * kYear) +
                    static_cast<int64_t>(random.Uniform() * 40 * kYear));
    values.push_back(cubic(times.back()));
  }
  const auto trend = Trend::Fit(times, values, 3);
  ASSERT_TRUE(trend.ok()) << trend.status();
  for (int64_t t : times) EXPECT_NEAR(trend->At(t), cubic(t), 1e-10);
  // Higher degrees find zeros only.
  const auto higher = Trend::Fit(times, values, 12);
  ASSERT_TRUE(higher.ok());
  for (int64_t t : times) EXPECT_NEAR(higher->At(t), cubic(t), 1e-9);
}

TEST(Trend, IsTheLeastSquaresSolution) {
  // y = 0, 1, 1, 3 at 0 .. 3: the line is -0.1 + 0.9 t, by the normal
  // equations.
  const std::vector<int64_t> times = {0, 1, 2, 3};
  const std::vector<double> values = {0, 1, 1, 3};
  const auto trend = Trend::Fit(times, values, 1);
  ASSERT_TRUE(trend.ok());
  EXPECT_NEAR(trend->At(0), -0.1, 1e-12);
  EXPECT_NEAR(trend->At(10), 8.9, 1e-12);
}

TEST(Trend, ResidualsAreOrthogonalToEveryLowerPower) {
  Random random(5);
  std::vector<int64_t> times;
  std::vector<double> values;
  for (int i = 0; i < 200; ++i) {
    times.push_back(static_cast<int64_t>(random.Below(1'000'000)));
    values.push_back(random.Normal());
  }
  const auto trend = Trend::Fit(times, values, 5);
  ASSERT_TRUE(trend.ok());
  for (int power = 0; power <= 5; ++power) {
    double sum = 0;
    for (size_t i = 0; i < times.size(); ++i) {
      sum += (values[i] - trend->At(times[i])) *
             std::pow(times[i] / 1e6 - 0.5, power);
    }
    EXPECT_NEAR(sum, 0, 1e-10) << "power " << power;
  }
}

TEST(Trend, DegreeZeroIsTheMeanAndMinusOneIsNothing) {
  const std::vector<int64_t> times = {5, 5, 9};
  const std::vector<double> values = {1, 2, 6};
  EXPECT_NEAR(Trend::Fit(times, values, 0)->At(123), 3, 1e-15);
  EXPECT_EQ(Trend::Fit(times, values, -1)->At(5), 0);
  EXPECT_EQ(Trend::Fit({}, {}, -1)->At(5), 0);
}

TEST(Trend, TimesAtTheEndsOfInt64) {
  const std::vector<int64_t> times = {std::numeric_limits<int64_t>::min(), 0,
                                      std::numeric_limits<int64_t>::max()};
  const std::vector<double> values = {-1, 0, 1};
  const auto trend = Trend::Fit(times, values, 1);
  ASSERT_TRUE(trend.ok());
  EXPECT_NEAR(trend->At(times[2]), 1, 1e-12);
  EXPECT_NEAR(trend->At(times[0]), -1, 1e-12);
}

TEST(Trend, NeedsEnoughDistinctTimes) {
  const std::vector<int64_t> times = {1, 1, 2};
  const std::vector<double> values = {1, 2, 3};
  EXPECT_TRUE(Trend::Fit(times, values, 1).ok());
  EXPECT_THAT(std::string(Trend::Fit(times, values, 2).status().message()),
              HasSubstr("2 distinct times with values, expected at least 3"));
  EXPECT_FALSE(Trend::Fit({}, {}, 0).ok());
  EXPECT_FALSE(Trend::Fit(times, values, 13).ok());
  EXPECT_FALSE(Trend::Fit(times, values, -2).ok());
}

}  // namespace
}  // namespace attnd::client
