#include "client/interpolate/series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Series> Read(const char* text,
                            const SeriesOptions& options = {}) {
  return MakeSeries(ParseCsv(text).value(), options);
}

constexpr int64_t kSecond = 1'000'000'000;

TEST(Series, IsSortedAndKeepsRepeats) {
  const auto series = Read(
      "t,v\n1970-01-01T00:00:03,3\n1970-01-01T00:00:01,1\n"
      "1970-01-01T00:00:03,4\n");
  ASSERT_TRUE(series.ok()) << series.status();
  EXPECT_THAT(series->time_ns, ElementsAre(kSecond, 3 * kSecond, 3 * kSecond));
  EXPECT_THAT(series->value, ElementsAre(1, 3, 4));
  EXPECT_EQ(series->value_name, "v");
}

TEST(Series, KnowsMissingValues) {
  const auto series = Read(
      "t,v\n1970-01-01,\n1970-01-02,NA\n1970-01-03,nan\n1970-01-04,-999\n"
      "1970-01-05, 7.5 \n",
      {.missing = {"-999"}});
  ASSERT_TRUE(series.ok()) << series.status();
  ASSERT_EQ(series->value.size(), 5u);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(series->value[i])) << i;
  EXPECT_EQ(series->value[4], 7.5);
}

TEST(Series, ErrorsNameTheLineAndTheRemedy) {
  const auto refusal = [](const char* text) {
    return std::string(Read(text).status().message());
  };
  EXPECT_THAT(refusal("t,v\n1970-01-01,1\n1970-01-02,x\n"),
              HasSubstr("line 3: value 'x'"));
  EXPECT_THAT(refusal("t,v\n1970-01-01,inf\n"), HasSubstr("line 2: value"));
  EXPECT_THAT(refusal("t,v\nmonday,1\n"), HasSubstr("line 2: time 'monday'"));
  EXPECT_THAT(refusal("t,v\n1700000000,1\n"), HasSubstr("--time-unit"));
  EXPECT_THAT(refusal("t,v\n1970-01-01,NA\n"),
              HasSubstr("at least one with a value"));
  EXPECT_THAT(refusal("t\n1970-01-01\n"), HasSubstr("column '2'"));
}

TEST(Series, ColumnsByNameAndCounts) {
  const auto series = Read("a,b,c\nx,10,1700000000\n",
                           {.time_column = "c",
                            .value_column = "b",
                            .time_format = {.epoch_unit_ns = kSecond}});
  ASSERT_TRUE(series.ok()) << series.status();
  EXPECT_EQ(series->time_ns[0], 1'700'000'000 * kSecond);
  EXPECT_EQ(series->value[0], 10);
}

}  // namespace
}  // namespace attnd::client
