#include "server/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace attnd::server {
namespace {

using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(JsonString, EscapesWhatMustBe) {
  EXPECT_EQ(JsonString("plain"), "\"plain\"");
  EXPECT_EQ(JsonString("a\"b\\c\nd\te"), "\"a\\\"b\\\\c\\nd\\u0009e\"");
  EXPECT_EQ(JsonString("\xC3\xA4\xFF"), "\"\xC3\xA4?\"");
  EXPECT_EQ(JsonString(std::string(1, '\0')), "\"\\u0000\"");
}

TEST(LogValue, NumbersAreNumbers) {
  EXPECT_EQ(LogValue(7).json(), "7");
  EXPECT_EQ(LogValue(true).json(), "true");
  EXPECT_EQ(LogValue(0.25).json(), "0.25");
  EXPECT_EQ(LogValue(std::numeric_limits<double>::infinity()).json(), "null");
}

TEST(Log, WritesOneJsonObjectALine) {
  CaptureStderr();
  {
    Log log{v1::Log()};
    log.Info("started", {{"port", 1}, {"host", "a\nb"}});
    log.Debug("not shown");
  }
  const std::string text = GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("\"level\":\"info\",\"event\":\"started\","
                              "\"port\":1,\"host\":\"a\\nb\"}\n"));
  EXPECT_EQ(text.find("not shown"), std::string::npos);
}

TEST(Log, WritesTextForPeople) {
  v1::Log config;
  config.set_format(v1::Log::FORMAT_TEXT);
  CaptureStderr();
  Log(config).Warning("odd", {{"port", 1}});
  EXPECT_THAT(GetCapturedStderr(), HasSubstr(" warning odd port=1\n"));
}

TEST(Log, AccessLinesAreSampledAboveTheirRate) {
  v1::Log config;
  config.set_access_lines_per_second(3);
  Log log(config);
  const Instant now{std::chrono::hours(1)};
  int written = 0;
  for (int i = 0; i < 10; ++i) written += log.AccessLine(now).has_value();
  EXPECT_EQ(written, 3);
  const auto skipped = log.AccessLine(now + std::chrono::seconds(1));
  ASSERT_TRUE(skipped);
  EXPECT_EQ(*skipped, 7);
}

}  // namespace
}  // namespace attnd::server
