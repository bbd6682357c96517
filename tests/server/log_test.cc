#include "server/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "server/text.h"

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

TEST(JsonString, EscapesEveryControlCharacter) {
  EXPECT_EQ(JsonString("\x1B[2J\x7F\xC2\x9B\xC2\xA0"),
            "\"\\u001b[2J\\u007f\\u009b\xC2\xA0\"");
}

TEST(JsonString, IsCutBetweenCharactersAndSaysHowLongItWas) {
  const std::string text(100, 'a');
  EXPECT_EQ(JsonString(text, 100, 102), absl::StrCat("\"", text, "\""));
  EXPECT_EQ(JsonString(text, 100, 101),
            absl::StrCat("\"", text.substr(0, 68), "…(100 bytes)\""));
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "€\n";
  for (size_t most = 64; most < 400; ++most) {
    const std::string cut = JsonString(wide, 400, most);
    EXPECT_LE(cut.size(), most);
    EXPECT_TRUE(IsUtf8(cut)) << most;
    EXPECT_THAT(cut, HasSubstr("…(400 bytes)\"")) << most;
  }
  EXPECT_THAT(JsonString("start", 1 << 20, 1000), "\"start…(1048576 bytes)\"");
}

TEST(LogValue, NumbersAreNumbers) {
  EXPECT_EQ(LogValue(7).Json(), "7");
  EXPECT_EQ(LogValue(true).Json(), "true");
  EXPECT_EQ(LogValue(0.25).Json(), "0.25");
  EXPECT_EQ(LogValue(std::numeric_limits<double>::infinity()).Json(), "null");
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

// What a line says, or the empty object.
// Its maps cannot be read under TSan, which the library was built without.
google::protobuf::Struct Parse(absl::string_view line) {
  google::protobuf::Struct object;
  EXPECT_TRUE(
      google::protobuf::util::JsonStringToMessage(std::string(line), &object)
          .ok())
      << line;
  return object;
}

// What others choose: a write that a pipe with room does not take at once would
// stop everybody who logs.
TEST(Log, NoLineIsLongerThanAPipeTakesAtOnce) {
  const size_t many = 1 << 20;
  std::string wide, quotes(many, '"');
  while (wide.size() < many) wide += "€";
  for (const std::string& text :
       {std::string(many, 'a'), wide, quotes, std::string(many, '\0'),
        std::string(many, '\xFF'), "a" + wide, std::string(4096, 'b')}) {
    for (const auto format : {v1::Log::FORMAT_JSON, v1::Log::FORMAT_TEXT}) {
      v1::Log config;
      config.set_format(format);
      CaptureStderr();
      {
        Log log(config);
        log.Info("one", {{"text", text}, {"number", 7}});
        log.Info("many", {{"a", text},
                          {"b", text},
                          {"short", "stays whole"},
                          {"c", text},
                          {"d", text},
                          {"e", text}});
      }
      const std::string written = GetCapturedStderr();
      const std::vector<std::string> lines = absl::StrSplit(written, '\n');
      ASSERT_EQ(lines.size(), 3u);
      EXPECT_EQ(lines[2], "");
      for (const std::string& line : {lines[0], lines[1]}) {
        EXPECT_LT(line.size(), size_t{PIPE_BUF});
        EXPECT_THAT(line, HasSubstr(absl::StrCat("…(", text.size())));
      }
      EXPECT_THAT(lines[1], HasSubstr("\"stays whole\""));
      if (format == v1::Log::FORMAT_TEXT) continue;
      Parse(lines[0]);
      EXPECT_THAT(lines[0], HasSubstr(",\"number\":7"));
      Parse(lines[1]);
      for (const char* key : {"a", "b", "c", "d", "e"}) {
        EXPECT_THAT(lines[1], HasSubstr(absl::StrCat("\"", key, "\":\"")));
      }
    }
  }
}

TEST(Log, FieldsThatNeverFitAreCounted) {
  const std::string key(500, 'k');
  CaptureStderr();
  Log(v1::Log()).Info("many", {{key, 1},
                               {key, 2},
                               {key, 3},
                               {key, 4},
                               {key, 5},
                               {key, 6},
                               {key, 7},
                               {key, 8},
                               {key, 9}});
  const std::string line = GetCapturedStderr();
  Parse(line);
  EXPECT_THAT(line, HasSubstr("\"event\":\"many\",\"fields_left_out\":9}"));
}

TEST(Log, TextsThatFitStayWhole) {
  const std::string text(3000, 'a');
  CaptureStderr();
  Log(v1::Log()).Info("one", {{"text", text}});
  const std::string line = GetCapturedStderr();
  Parse(line);
  EXPECT_THAT(line, HasSubstr(absl::StrCat("\"text\":\"", text, "\"")));
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
