#include "client/interpolate/straight_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace attnd::client {
namespace {

using ::testing::ElementsAre;

TEST(StraightLine, LiesBetweenTheNearestNeighbours) {
  const std::vector<int64_t> known_ns = {0, 10, 30};
  const std::vector<double> known = {0, 1, 5};
  EXPECT_THAT(StraightLine(known_ns, known, {5, 20, 10, 0, 30}),
              ElementsAre(0.5, 3, 1, 0, 5));
}

TEST(StraightLine, HoldsTheEndsOutside) {
  EXPECT_THAT(StraightLine({10, 20}, {3, 4}, {-1000, 9, 21}),
              ElementsAre(3, 3, 4));
  EXPECT_THAT(StraightLine({10}, {3}, {0, 10, 20}), ElementsAre(3, 3, 3));
}

TEST(StraightLine, RepeatedTimesCountOnceWithTheirMean) {
  EXPECT_THAT(StraightLine({0, 10, 10, 20}, {0, 1, 3, 4}, {5, 10, 15}),
              ElementsAre(1, 2, 3));
}

TEST(StraightLine, SpansTheWholeOfInt64) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_NEAR(StraightLine({kMin, kMax}, {0, 1}, {0})[0], 0.5, 1e-12);
}

TEST(RootMeanSquare, IsWhatItSays) {
  EXPECT_DOUBLE_EQ(RootMeanSquare({1, 2, 3}, {1, 5, -1}), 5 / std::sqrt(3.0));
  EXPECT_EQ(RootMeanSquare({}, {}), 0);
}

}  // namespace
}  // namespace attnd::client
