#include "client/histogram_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "client/random.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Histogram Latencies(int64_t values, uint64_t seed = 1) {
  Histogram histogram = *Histogram::Create();
  Random random(seed);
  for (int64_t i = 0; i < values; ++i) {
    histogram.Record(static_cast<int64_t>(1e6 * random.Exponential()));
  }
  return histogram;
}

std::vector<int64_t> Counts(const Histogram& histogram) {
  return {histogram.SlotCounts().begin(), histogram.SlotCounts().end()};
}

TEST(HistogramCodec, KeepsEveryCount) {
  for (int64_t values : {0, 1, 2, 1000, 100'000}) {
    const Histogram histogram = Latencies(values);
    const auto decoded = DecodeHistogram(EncodeHistogram(histogram));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(Counts(*decoded), Counts(histogram));
    EXPECT_EQ(decoded->count(), values);
    EXPECT_EQ(decoded->options().highest, histogram.options().highest);
  }
}

TEST(HistogramCodec, KeepsTheEndsOfTheRange) {
  for (int digits = 1; digits <= 5; ++digits) {
    Histogram histogram =
        *Histogram::Create({.lowest = 1000, .digits = digits});
    histogram.Record(0, int64_t{1} << 40);
    histogram.Record(histogram.options().highest, 3);
    const auto decoded = DecodeHistogram(EncodeHistogram(histogram));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(Counts(*decoded), Counts(histogram));
  }
}

TEST(HistogramCodec, DecodedHistogramsMerge) {
  Histogram sum = *DecodeHistogram(EncodeHistogram(Latencies(500, 1)));
  sum.Merge(*DecodeHistogram(EncodeHistogram(Latencies(700, 2))));
  Histogram expected = Latencies(500, 1);
  expected.Merge(Latencies(700, 2));
  EXPECT_EQ(Counts(sum), Counts(expected));
}

// Written by HdrHistogram's port for Python (hdrhistogram 0.10.8):
//   h = HdrHistogram(1, 3600000000000, 3)
//   for v in (1, 1000, 1000, 260000000): h.record_value(v)
//   h.encode()
constexpr char kForeign[] =
    "HISTFAAAACl4nJNpmSzMwMDAyQABzFCaEch0M9ixgMH+A1SA6TQ/y+r5TEwAgPkGgw==";

TEST(HistogramCodec, ReadsWhatOthersWrote) {
  const auto histogram = DecodeHistogram(kForeign);
  ASSERT_TRUE(histogram.ok()) << histogram.status();
  EXPECT_EQ(histogram->count(), 4);
  EXPECT_EQ(histogram->Min(), 1);
  EXPECT_EQ(histogram->ValueAtPercentile(50), 1000);
  EXPECT_EQ(histogram->Max(), histogram->HighestEquivalent(260'000'000));
}

TEST(HistogramCodec, DamageIsRefused) {
  const std::string good = EncodeHistogram(Latencies(1000));
  for (size_t cut = 0; cut < good.size(); cut += 7) {
    EXPECT_FALSE(DecodeHistogram(good.substr(0, cut)).ok()) << cut;
  }
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    bad[random.Below(bad.size())] = static_cast<char>('A' + random.Below(26));
    // Whatever it is, it must not crash; a checksum finds nearly all.
    if (const auto decoded = DecodeHistogram(bad); decoded.ok()) {
      EXPECT_GE(decoded->count(), 0);
    }
  }
}

TEST(HistogramLog, HasTheLinesOfItsFormat) {
  const Histogram histogram = Latencies(10);
  const std::string log = HistogramLog(
      1'700'000'000.25,
      {{"latency", 0, 10.5, &histogram}, {"service", 0, 10.5, &histogram}});
  const std::vector<std::string> lines = absl::StrSplit(log, '\n');
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "#[Histogram log format version 1.3]");
  EXPECT_THAT(lines[1],
              AllOf(StartsWith("#[StartTime: 1700000000.250 (seconds"),
                    HasSubstr("2023-11-14T22:13:20+00:00")));
  EXPECT_THAT(lines[4], StartsWith("Tag=latency,0.000,10.500,"));
  const std::vector<std::string> fields = absl::StrSplit(lines[5], ',');
  ASSERT_EQ(fields.size(), 5u);
  EXPECT_EQ(DecodeHistogram(fields[4])->count(), 10);
}

TEST(Histogram, ReservedItNeverAllocatesAgain) {
  Histogram histogram = *Histogram::Create();
  histogram.Reserve();
  histogram.Record(1);
  const int64_t* before = histogram.SlotCounts().data();
  histogram.Record(histogram.options().highest);
  EXPECT_EQ(histogram.SlotCounts().data(), before);
  histogram.Clear();
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_TRUE(histogram.SlotCounts().empty());
}

}  // namespace
}  // namespace attnd::client
