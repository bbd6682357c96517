#include "client/interpolate/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/interpolate/time_text.h"
#include "client/interpolate/time_ticks.h"
#include "client/plot/svg.h"
#include "client/plot/value_ticks.h"
#include "client/random.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kDay = 86'400'000'000'000;

std::vector<std::string> Labels(const char* first, const char* last, int most) {
  std::vector<std::string> labels;
  for (const TimeTick& tick :
       TimeTicks(ParseTime(first).value(), ParseTime(last).value(), most)) {
    labels.push_back(tick.label);
  }
  return labels;
}

TEST(TimeTicks, StandAtRoundPlacesOfTheCalendar) {
  EXPECT_THAT(Labels("1958-03-29", "2001-12-29", 6),
              ElementsAre("1960", "1970", "1980", "1990", "2000"));
  EXPECT_THAT(Labels("1999-11-15", "2000-06-01", 4),
              ElementsAre("2000-01", "2000-04"));
  EXPECT_THAT(
      Labels("2000-02-28", "2000-03-02", 5),
      ElementsAre("2000-02-28", "2000-02-29", "2000-03-01", "2000-03-02"));
  EXPECT_THAT(Labels("2000-01-01T00:00", "2000-01-01T12:00", 3),
              ElementsAre("01-01 00:00", "01-01 06:00", "01-01 12:00"));
  EXPECT_THAT(Labels("2000-01-01T00:00:00", "2000-01-01T00:00:20", 3),
              ElementsAre("00:00:00", "00:00:10", "00:00:20"));
  EXPECT_THAT(Labels("2000-01-01T00:00:00.1", "2000-01-01T00:00:00.2", 3),
              ElementsAre("00:00:00.1", "00:00:00.15", "00:00:00.2"));
}

TEST(TimeTicks, AreNeverTooManyAndAlwaysInside) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const int64_t first = static_cast<int64_t>(random.Next());
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    const int64_t room = first < 0 ? kMax : kMax - first;
    const uint64_t span = random.Below(uint64_t{1} << random.Below(63));
    const int64_t last = first + std::min(room, static_cast<int64_t>(span));
    const auto ticks = TimeTicks(first, last, 11);
    EXPECT_LE(ticks.size(), 12u) << first << " " << last;
    for (const TimeTick& tick : ticks) {
      EXPECT_GE(tick.time_ns, first);
      EXPECT_LE(tick.time_ns, last);
    }
  }
  // One instant, and all of them.
  EXPECT_EQ(TimeTicks(0, 0, 5).size(), 1u);
  EXPECT_GE(TimeTicks(std::numeric_limits<int64_t>::min(),
                      std::numeric_limits<int64_t>::max(), 11)
                .size(),
            2u);
}

TEST(ValueTicks, AreRoundNumbers) {
  const auto labels = [](double low, double high, int most) {
    std::vector<std::string> texts;
    for (const ValueTick& tick : ValueTicks(low, high, most)) {
      texts.push_back(tick.label);
    }
    return texts;
  };
  EXPECT_THAT(labels(312, 374, 7),
              ElementsAre("320", "330", "340", "350", "360", "370"));
  EXPECT_THAT(labels(-0.25, 0.35, 6),
              ElementsAre("-0.2", "-0.1", "0.0", "0.1", "0.2", "0.3"));
  EXPECT_THAT(labels(0, 1e-9, 2), ElementsAre("0", "5e-10", "1e-09"));
  EXPECT_THAT(labels(0, 3e9, 3), ElementsAre("0", "1e+09", "2e+09", "3e+09"));
}

TEST(XmlText, EscapesWhatMarkupMeans) {
  EXPECT_EQ(XmlText("<a href=\"x\">&'\x01"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(XmlText("CO₂"), "CO₂");
}

// A year of days with a hidden fortnight and a missing week.
PlotData Example(int days) {
  PlotData data;
  data.title = "A & B";
  data.subtitle = "sub";
  data.value_label = "ppm";
  for (int i = 0; i < days; ++i) {
    const PlotPoint point = {i * kDay, std::sin(i / 20.0)};
    (i >= 100 && i < 114 ? data.hidden : data.observed).push_back(point);
    data.estimate.push_back(point);
  }
  data.hidden_stretches = {{99 * kDay, 114 * kDay}};
  data.missing_stretches = {{200 * kDay, 207 * kDay}};
  data.straight_line = {data.observed[99], data.observed[100]};
  return data;
}

TEST(PlotSvg, StandsAloneAndShowsEverything) {
  const std::string svg = PlotSvg(Example(365));
  EXPECT_THAT(svg, AllOf(HasSubstr("A &amp; B"), HasSubstr("ppm"),
                         HasSubstr("1970-07"), HasSubstr("observed, but"),
                         HasSubstr("no data"), Not(HasSubstr("magnified"))));
  EXPECT_THAT(svg, AllOf(Not(HasSubstr("href")), Not(HasSubstr("<script")),
                         Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST(PlotSvg, MagnifiesAPartOfALongSeries) {
  const std::string svg = PlotSvg(Example(1000));
  EXPECT_THAT(svg, AllOf(HasSubstr("magnified"), HasSubstr("straight line")));
  const PlotStretch part = DetailStretch(Example(1000), 200);
  EXPECT_LE(part.begin_ns, 100 * kDay);
  EXPECT_GE(part.end_ns, 113 * kDay);
  EXPECT_NEAR(static_cast<double>(part.end_ns - part.begin_ns),
              999 * kDay * 0.2, kDay);
}

TEST(PlotSvg, IsBoundedInSize) {
  PlotData data;
  Random random(2);
  for (int i = 0; i < 1'000'000; ++i) {
    data.observed.push_back({i * (kDay / 100), random.Normal()});
    data.estimate.push_back({i * (kDay / 100), random.Normal()});
  }
  EXPECT_LT(PlotSvg(data).size(), 6u << 20);
}

TEST(PlotSvg, OnePointIsAPlot) {
  PlotData data;
  data.observed = {{5 * kDay, 7}};
  EXPECT_THAT(PlotSvg(data), Not(HasSubstr("nan")));
  data.observed.clear();
  data.estimate = {{std::numeric_limits<int64_t>::min(), 0},
                   {std::numeric_limits<int64_t>::max(), 1}};
  EXPECT_THAT(PlotSvg(data), Not(HasSubstr("nan")));
}

TEST(PlotHtml, IsAPageAroundTheDrawing) {
  const std::string html = PlotHtml(Example(50));
  EXPECT_THAT(html, AllOf(HasSubstr("<!DOCTYPE html>"),
                          HasSubstr("<title>A &amp; B</title>"),
                          HasSubstr("<svg "), HasSubstr("</html>")));
}

}  // namespace
}  // namespace attnd::client
