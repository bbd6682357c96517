#include "client/duration_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "client/decimal.h"

namespace attnd::client {
namespace {

TEST(ScaleDecimal, IsExact) {
  EXPECT_EQ(ScaleDecimal("1.5", 3600), 5400);
  EXPECT_EQ(ScaleDecimal("0.5", 2), 1);
  EXPECT_EQ(ScaleDecimal("-2.25", 4), -9);
  EXPECT_EQ(ScaleDecimal("+7", 1), 7);
  EXPECT_EQ(ScaleDecimal("1700000000.123456789", 1'000'000'000),
            1'700'000'000'123'456'789);
  EXPECT_EQ(ScaleDecimal("1.000000000000000000000000000", 5), 5);
  EXPECT_EQ(ScaleDecimal("0.0", 1), 0);
}

TEST(ScaleDecimal, RefusesPartsAndOverflow) {
  EXPECT_FALSE(ScaleDecimal("0.3", 2));
  EXPECT_FALSE(ScaleDecimal("9223372036854775808", 1));
  EXPECT_EQ(ScaleDecimal("9223372036854775807", 1),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ScaleDecimal("-9223372036854775808", 1),
            std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(ScaleDecimal("99999999999999999999999999999999999999999", 1));
  EXPECT_FALSE(ScaleDecimal("0.0000000000000000000000000000000001", 1000));
}

TEST(ScaleDecimal, RefusesOtherText) {
  for (const char* text :
       {"", ".", "-", "1e3", "1.2.3", " 1", "0x1", "1,5", "--1", "nan"}) {
    EXPECT_FALSE(ScaleDecimal(text, 10)) << text;
  }
}

TEST(ParseDuration, KnowsTheUnitsOfTheConfiguration) {
  EXPECT_EQ(ParseDuration("250ms").value(), 250'000'000);
  EXPECT_EQ(ParseDuration("7d").value(), 604'800'000'000'000);
  EXPECT_EQ(ParseDuration("365.25d").value(), 31'557'600'000'000'000);
  EXPECT_EQ(ParseDuration("1w").value(), ParseDuration("168h").value());
  EXPECT_EQ(ParseDuration("2min").value(), ParseDuration("120s").value());
  EXPECT_EQ(ParseDuration("5us").value(), ParseDuration("5000ns").value());
}

TEST(ParseDuration, RefusesTheRest) {
  for (const char* text :
       {"", "7", "d", "7 d", "7m", "1.5ns", "300000w", "7dd", "1y"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(DurationText, HasThreeDigits) {
  EXPECT_EQ(DurationText(0), "0ns");
  EXPECT_EQ(DurationText(1530), "1.53us");
  EXPECT_EQ(DurationText(15'300'000), "15.3ms");
  EXPECT_EQ(DurationText(153e6), "153ms");
  EXPECT_EQ(DurationText(999.9e6), "1.00s");
  EXPECT_EQ(DurationText(90e9), "1.50min");
  EXPECT_EQ(DurationText(604'800e9), "7.00d");
}

}  // namespace
}  // namespace attnd::client
