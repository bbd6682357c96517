#include "client/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_split.h"
#include "client/random.h"

namespace attnd::client {
namespace {

using ::testing::HasSubstr;

Histogram Make(int digits = 3, int64_t lowest = 1,
               int64_t highest = int64_t{3'600'000'000'000}) {
  auto histogram = Histogram::Create(
      {.lowest = lowest, .highest = highest, .digits = digits});
  EXPECT_TRUE(histogram.ok()) << histogram.status();
  return *std::move(histogram);
}

// What percentiles are by definition, from all values.
int64_t Oracle(const std::vector<int64_t>& sorted, double percent) {
  const double rank = std::ceil(percent / 100 * sorted.size() - 1e-9);
  return sorted[std::max<int64_t>(static_cast<int64_t>(rank), 1) - 1];
}

TEST(Histogram, IsEmptyAtFirst) {
  const Histogram histogram = Make();
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.Min(), 0);
  EXPECT_EQ(histogram.Max(), 0);
  EXPECT_EQ(histogram.Mean(), 0);
  EXPECT_EQ(histogram.StdDev(), 0);
  EXPECT_EQ(histogram.ValueAtPercentile(50), 0);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram = Make();
  for (int64_t value = 1; value <= 1000; ++value) histogram.Record(value);
  EXPECT_EQ(histogram.ValueAtPercentile(0), 1);
  EXPECT_EQ(histogram.ValueAtPercentile(50), 500);
  EXPECT_EQ(histogram.ValueAtPercentile(99.9), 999);
  EXPECT_EQ(histogram.ValueAtPercentile(100), 1000);
  EXPECT_DOUBLE_EQ(histogram.Mean(), 500.5);
  EXPECT_NEAR(histogram.StdDev(), std::sqrt((1e6 - 1) / 12), 1e-9);
}

// The layout itself: HdrHistogram with 3 digits has 2048 slots of width 1, then
// 1024 of width 2, 4, ...
TEST(Histogram, SlotsDoubleWhereHdrHistogramDoublesThem) {
  const Histogram histogram = Make();
  EXPECT_EQ(histogram.HighestEquivalent(2047), 2047);
  EXPECT_EQ(histogram.LowestEquivalent(2049), 2048);
  EXPECT_EQ(histogram.HighestEquivalent(2048), 2049);
  EXPECT_EQ(histogram.HighestEquivalent(4095), 4095);
  EXPECT_EQ(histogram.LowestEquivalent(4099), 4096);
  EXPECT_EQ(histogram.HighestEquivalent(4096), 4099);
  EXPECT_EQ(histogram.LowestEquivalent(10'007), 10'000);
  EXPECT_EQ(histogram.HighestEquivalent(10'000), 10'007);
  // With `lowest` 1024 the first slots are that wide.
  const Histogram coarse = Make(3, 1024);
  EXPECT_EQ(coarse.HighestEquivalent(0), 1023);
  EXPECT_EQ(coarse.HighestEquivalent(1024), 2047);
  EXPECT_EQ(coarse.HighestEquivalent(2048 * 1024), 2050 * 1024 - 1);
}

TEST(Histogram, EveryValueKeepsItsDigits) {
  Random random(1);
  for (int digits = 1; digits <= 5; ++digits) {
    const Histogram histogram = Make(digits);
    for (int i = 0; i < 20'000; ++i) {
      const int64_t value =
          static_cast<int64_t>(random.Below(uint64_t{1} << random.Below(42)));
      const int64_t low = histogram.LowestEquivalent(value);
      const int64_t high = histogram.HighestEquivalent(value);
      ASSERT_LE(low, value);
      ASSERT_GE(high, value);
      ASSERT_LE(static_cast<double>(high - low),
                static_cast<double>(value) * std::pow(10, -digits))
          << value << " with " << digits << " digits";
      ASSERT_EQ(histogram.LowestEquivalent(high), low);
      if (high + 1 < int64_t{1} << 42) {
        ASSERT_EQ(histogram.LowestEquivalent(high + 1), high + 1);
      }
    }
  }
}

TEST(Histogram, AgreesWithASortedVector) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Random random(seed);
    Histogram histogram = Make();
    std::vector<int64_t> values;
    for (int i = 0; i < 10'000; ++i) {
      // Nanoseconds from microseconds to minutes, with a long tail.
      values.push_back(
          static_cast<int64_t>(std::exp(std::log(1e6) + 2 * random.Normal())));
      histogram.Record(values.back());
    }
    std::sort(values.begin(), values.end());
    for (double percent :
         {0.0, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
      EXPECT_EQ(histogram.ValueAtPercentile(percent),
                histogram.HighestEquivalent(Oracle(values, percent)))
          << "seed " << seed << " percentile " << percent;
    }
    double sum = 0;
    for (int64_t value : values) sum += static_cast<double>(value);
    EXPECT_NEAR(histogram.Mean(), sum / values.size(),
                1e-3 * sum / values.size());
    EXPECT_EQ(histogram.Max(), histogram.HighestEquivalent(values.back()));
    EXPECT_EQ(histogram.Min(), histogram.LowestEquivalent(values.front()));
    const int64_t bound = values[5000];
    EXPECT_EQ(histogram.CountAtOrBelow(bound),
              std::upper_bound(values.begin(), values.end(),
                               histogram.HighestEquivalent(bound)) -
                  values.begin());
  }
}

TEST(Histogram, MergeEqualsRecordingAll) {
  Random random(7);
  Histogram all = Make(), one = Make(), two = Make();
  for (int i = 0; i < 1000; ++i) {
    const int64_t value = static_cast<int64_t>(random.Below(1 << 30));
    all.Record(value);
    (i % 3 == 0 ? one : two).Record(value);
  }
  Histogram merged = Make();
  merged.Merge(one);
  merged.Merge(two);
  merged.Merge(Make());
  EXPECT_EQ(merged.PercentileText(), all.PercentileText());
  EXPECT_EQ(merged.Min(), all.Min());
  EXPECT_EQ(merged.Max(), all.Max());
}

TEST(Histogram, CountsWhatIsAboveTheRange) {
  Histogram histogram = Make(3, 1, 1000);
  histogram.Record(5000);
  histogram.Record(-5);
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_EQ(histogram.clamped(), 1);
  EXPECT_EQ(histogram.Max(), 1000);
  EXPECT_EQ(histogram.Min(), 0);
}

TEST(Histogram, RecordsManyAtOnce) {
  Histogram histogram = Make();
  histogram.Record(10, 99);
  histogram.Record(1000);
  histogram.Record(5, 0);
  EXPECT_EQ(histogram.count(), 100);
  EXPECT_EQ(histogram.ValueAtPercentile(99), 10);
  EXPECT_EQ(histogram.ValueAtPercentile(99.1), 1000);
}

// The text of HdrHistogram's outputPercentileDistribution for 1 .. 100 and one
// tick for each half.
TEST(Histogram, WritesHdrHistogramsPercentileText) {
  Histogram histogram = Make(2);
  for (int64_t value = 1; value <= 100; ++value) histogram.Record(value);
  const std::string expected =
      R"(       Value     Percentile TotalCount 1/(1-Percentile)

        1.00 0.000000000000          1           1.00
       50.00 0.500000000000         50           2.00
       75.00 0.750000000000         75           4.00
       88.00 0.875000000000         88           8.00
       94.00 0.937500000000         94          16.00
       97.00 0.968750000000         97          32.00
       99.00 0.984375000000         99          64.00
      100.00 0.992187500000        100         128.00
      100.00 1.000000000000        100
#[Mean    =        50.50, StdDeviation   =        28.87]
#[Max     =       100.00, Total count    =          100]
#[Buckets =            1, SubBuckets     =          256]
)";
  EXPECT_EQ(histogram.PercentileText(1.0, 1), expected);
}

TEST(Histogram, TextOfOneValueHasOneLineForIt) {
  Histogram histogram = Make(3);
  histogram.Record(1'500'000, 10);
  const std::vector<std::string> lines =
      absl::StrSplit(histogram.PercentileText(1e6), '\n');
  EXPECT_THAT(lines[2], HasSubstr("1.500 0.000000000000         10"));
  EXPECT_THAT(lines[3], HasSubstr("1.000000000000         10"));
}

TEST(Histogram, WrongOptionsAreNamed) {
  EXPECT_THAT(std::string(Histogram::Create({.digits = 6}).status().message()),
              HasSubstr("digits: 6"));
  EXPECT_THAT(std::string(Histogram::Create({.lowest = 0}).status().message()),
              HasSubstr("lowest: 0"));
  EXPECT_THAT(
      std::string(
          Histogram::Create({.lowest = 10, .highest = 19}).status().message()),
      HasSubstr("highest: 19"));
}

}  // namespace
}  // namespace attnd::client
