#include "client/interpolate/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace attnd::client {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kDay = 86'400'000'000'000;

Series SixRows() {
  return {.time_name = "t",
          .value_name = "v",
          .time_ns = {0, kDay, 2 * kDay, 2 * kDay, 3 * kDay, 9 * kDay},
          .value = {1, NAN, 3, 5, 4, 7}};
}

TEST(SplitSeries, TakesHiddenAndMissingApart) {
  const auto split = SplitSeries(SixRows(), {.count = 1, .length = 1}, 3);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->hidden.time_ns.size(), 1u);
  EXPECT_EQ(split->visible.time_ns.size(), 4u);
  EXPECT_THAT(split->missing_ns, ElementsAre(kDay));
  const auto all = SplitSeries(SixRows(), {}, 3);
  EXPECT_EQ(all->visible.time_ns.size(), 5u);
}

TEST(ResultCsv, SaysWhatEachTimeIs) {
  const Series series = SixRows();
  Split split;
  split.visible = {{0, 2 * kDay, 2 * kDay, 9 * kDay}, {1, 3, 5, 7}};
  split.hidden = {{3 * kDay}, {4}};
  split.missing_ns = {kDay};
  const Estimates estimates = {
      {0, kDay, 2 * kDay, 3 * kDay, 4 * kDay, 9 * kDay},
      {1.5, 2, 4.25, NAN, 4.123456789, 7}};
  EXPECT_EQ(ResultCsv(series, split, estimates,
                      {0, kDay, 2 * kDay, 3 * kDay, 4 * kDay}, {}),
            "t,estimate,observed,state\n"
            "1970-01-01,1.5,1,observed\n"
            "1970-01-02,2,,missing\n"
            "1970-01-03,4.25,4,observed\n"
            "1970-01-04,,4,hidden\n"
            "1970-01-05,4.123457,,\n");
}

TEST(Judge, ComparesWithWhatWasHidden) {
  Split split;
  split.visible = {{0, 4 * kDay}, {0, 8}};
  split.hidden = {{kDay, 2 * kDay}, {3, 4}};
  const Estimates estimates = {{kDay, 2 * kDay}, {2, 4}};
  const Verdict verdict = Judge(split, estimates);
  EXPECT_DOUBLE_EQ(verdict.attention, std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(verdict.straight_line, std::sqrt(0.5));
  EXPECT_EQ(VerdictText({0.40478, 0.83118}, "ppm", "a/b.svg"),
            "held-out rmse: attention 0.405 ppm, straight line 0.831 ppm, "
            "plot a/b.svg");
  EXPECT_EQ(VerdictText({12345, 2}, "", ""),
            "held-out rmse: attention 1.23e+04, straight line 2");
}

TEST(MissingStretches, AreRowsWithoutValuesAndLongSpaces) {
  const auto stretches = MissingStretches(SixRows());
  ASSERT_EQ(stretches.size(), 2u);
  EXPECT_EQ(stretches[0].begin_ns, 0);
  EXPECT_EQ(stretches[0].end_ns, 2 * kDay);
  EXPECT_EQ(stretches[1].begin_ns, 3 * kDay);
  EXPECT_EQ(stretches[1].end_ns, 9 * kDay);
}

TEST(MakePlotData, HiddenStretchesReachTheirVisibleNeighbours) {
  Split split;
  split.visible = {{0, 4 * kDay, 9 * kDay}, {0, 8, 9}};
  split.hidden = {{kDay, 2 * kDay}, {3, 4}};
  const PlotData data =
      MakePlotData(SixRows(), split, {{kDay, 2 * kDay}, {2, NAN}});
  ASSERT_EQ(data.hidden_stretches.size(), 1u);
  EXPECT_EQ(data.hidden_stretches[0].begin_ns, 0);
  EXPECT_EQ(data.hidden_stretches[0].end_ns, 4 * kDay);
  EXPECT_EQ(data.estimate.size(), 1u);
  EXPECT_EQ(data.straight_line.size(), 4u);
}

}  // namespace
}  // namespace attnd::client
