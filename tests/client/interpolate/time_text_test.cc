#include "client/interpolate/time_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;
constexpr TimeFormat kSeconds = {.epoch_unit_ns = kSecond};

TEST(ParseTime, KnownInstants) {
  EXPECT_EQ(ParseTime("1970-01-01").value(), 0);
  EXPECT_EQ(ParseTime("2001-09-09T01:46:40Z").value(), 1'000'000'000 * kSecond);
  EXPECT_EQ(ParseTime("1958-03-29").value(), -371'174'400 * kSecond);
  EXPECT_EQ(ParseTime("2000-02-29 12:00").value(), 951'825'600 * kSecond);
  EXPECT_EQ(ParseTime("2001-12").value(), ParseTime("2001-12-01").value());
  EXPECT_EQ(ParseTime(" 1999-12-31T24:00 ").value(),
            ParseTime("2000-01-01").value());
}

// The instants of case C16: one moment in many zones.
TEST(ParseTime, ZonesGoToUtc) {
  const int64_t moment = ParseTime("2024-03-10T06:59:00Z").value();
  for (const char* text :
       {"2024-03-10T06:59:00", "2024-03-10 12:29:00+05:30",
        "2024-03-10T01:59:00-05:00", "2024-03-10T01:59:00-0500",
        "2024-03-10T01:59-05", "2024-03-10t06:59:00z"}) {
    EXPECT_EQ(ParseTime(text).value(), moment) << text;
  }
}

TEST(ParseTime, FractionsAreExactToTheNanosecond) {
  const int64_t whole = ParseTime("2024-01-01T00:00:00").value();
  EXPECT_EQ(ParseTime("2024-01-01T00:00:00.000000001").value(), whole + 1);
  EXPECT_EQ(ParseTime("2024-01-01T00:00:00,25Z").value(), whole + 250'000'000);
  EXPECT_EQ(ParseTime("2024-01-01T00:00:00.1000000000000").value(),
            whole + 100'000'000);
  EXPECT_FALSE(ParseTime("2024-01-01T00:00:00.0000000001").ok());
}

TEST(ParseTime, RefusesWhatDoesNotExist) {
  for (const char* text :
       {"", "2001-02-29", "2001-13-01", "2001-00-01", "2001-01-32",
        "2001-01-01T24:01", "2001-01-01T12:60", "2001-01-01T12:00:60",
        "2001-1-1", "20010101", "2001-01-01T12", "2001-01-01T12:00Zulu",
        "2001-01-01T12:00+25:00", "01/02/2001", "yesterday"}) {
    EXPECT_FALSE(ParseTime(text).ok()) << text;
  }
}

TEST(ParseTime, SaysHowFarInt64Reaches) {
  EXPECT_THAT(std::string(ParseTime("1600-01-01").status().message()),
              HasSubstr("1677-09-21 to 2262-04-11"));
  EXPECT_TRUE(ParseTime("2262-04-11T23:47:16.854775807").ok());
  EXPECT_FALSE(ParseTime("2262-04-11T23:47:16.854775808").ok());
}

TEST(ParseTime, CountsAreExact) {
  EXPECT_EQ(ParseTime("1700000000.25", kSeconds).value(),
            1'700'000'000'250'000'000);
  EXPECT_EQ(ParseTime("-5", kSeconds).value(), -5 * kSecond);
  EXPECT_EQ(ParseTime("1700000000123", {.epoch_unit_ns = 1'000'000}).value(),
            1'700'000'000'123'000'000);
  EXPECT_FALSE(ParseTime("1e9", kSeconds).ok());
  EXPECT_FALSE(ParseTime("9999999999999", kSeconds).ok());
}

TEST(TimeTexts, AreTheShortestThatLoseNothing) {
  const int64_t day = ParseTime("1958-03-29").value();
  EXPECT_THAT(TimeTexts({day, 0}), ElementsAre("1958-03-29", "1970-01-01"));
  EXPECT_THAT(
      TimeTexts({day, -1'000'000}),
      ElementsAre("1958-03-29T00:00:00.000Z", "1969-12-31T23:59:59.999Z"));
  EXPECT_THAT(TimeTexts({61 * kSecond}), ElementsAre("1970-01-01T00:01:01Z"));
  EXPECT_THAT(TimeTexts({1'500'000'000, -250'000'000, 7 * kSecond}, kSeconds),
              ElementsAre("1.5", "-0.25", "7"));
}

TEST(TimeTexts, ComeBackAsTheyWere) {
  for (int64_t ns : {std::numeric_limits<int64_t>::min(),
                     std::numeric_limits<int64_t>::max(), int64_t{-1},
                     int64_t{0}, int64_t{1'700'000'000'123'456'789}}) {
    EXPECT_EQ(ParseTime(TimeTexts({ns})[0]).value(), ns);
    EXPECT_EQ(ParseTime(TimeTexts({ns}, kSeconds)[0], kSeconds).value(), ns);
  }
}

}  // namespace
}  // namespace attnd::client
