#include "client/interpolate/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Csv, SplitsLinesAndFields) {
  const auto table = ParseCsv("time,value\n1,2\r\n3,\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->header, ElementsAre("time", "value"));
  ASSERT_EQ(table->rows.size(), 2u);
  EXPECT_THAT(table->rows[0].fields, ElementsAre("1", "2"));
  EXPECT_THAT(table->rows[1].fields, ElementsAre("3", ""));
  EXPECT_EQ(table->rows[1].line, 3);
}

TEST(Csv, QuotesHoldDelimitersLineEndsAndQuotes) {
  const auto table =
      ParseCsv("\"a,b\",\"say \"\"no\"\"\"\n\"two\nlines\",x\nlast,row");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->header, ElementsAre("a,b", "say \"no\""));
  EXPECT_THAT(table->rows[0].fields, ElementsAre("two\nlines", "x"));
  EXPECT_EQ(table->rows[1].line, 4);
}

TEST(Csv, PassesOverByteOrderMarkAndEmptyLines) {
  const auto table = ParseCsv("\xef\xbb\xbftime,value\n\n1,2\n\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->header[0], "time");
  EXPECT_EQ(table->rows.size(), 1u);
}

TEST(Csv, OtherDelimitersAndNoHeader) {
  const auto table =
      ParseCsv("1;2,5\n", {.has_header = false, .delimiter = ';'});
  ASSERT_TRUE(table.ok());
  EXPECT_TRUE(table->header.empty());
  EXPECT_THAT(table->rows[0].fields, ElementsAre("1", "2,5"));
}

TEST(Csv, ErrorsNameTheLine) {
  const auto refusal = [](absl::string_view text) {
    return std::string(ParseCsv(text).status().message());
  };
  EXPECT_THAT(refusal("a,b\n1,2\n1,2,3\n"),
              HasSubstr("line 3: 3 fields, expected 2"));
  EXPECT_THAT(refusal("a,b\n\"1,2\n3,4\n"),
              HasSubstr("line 2: a quote opens here"));
  EXPECT_THAT(refusal("a,b\n\"1\"x,2\n"), HasSubstr("line 2: found 'x'"));
}

TEST(Csv, AnEmptyFileIsAnEmptyTable) {
  const auto table = ParseCsv("");
  ASSERT_TRUE(table.ok());
  EXPECT_TRUE(table->header.empty());
  EXPECT_TRUE(table->rows.empty());
}

TEST(FindColumn, AnEmptyFileIsCalledEmpty) {
  const auto table = ParseCsv("", {});
  ASSERT_TRUE(table.ok());
  EXPECT_THAT(std::string(FindColumn(*table, "1").status().message()),
              ::testing::HasSubstr("empty"));
}

TEST(FindColumn, NamesWinOverNumbers) {
  const auto table = ParseCsv("2,b\n1,1\n");
  EXPECT_EQ(FindColumn(*table, "2").value(), 0);
  EXPECT_EQ(FindColumn(*table, "b").value(), 1);
  EXPECT_EQ(FindColumn(*table, "1").value(), 0);
  EXPECT_THAT(std::string(FindColumn(*table, "c").status().message()),
              HasSubstr("column 'c', expected one of 2, b"));
  EXPECT_FALSE(FindColumn(*table, "3").ok());
  EXPECT_FALSE(FindColumn(*table, "0").ok());
}

TEST(CsvField, ComesBackAsItWas) {
  for (const char* text : {"plain", "a,b", "say \"no\"", "two\nlines", ""}) {
    const auto table = ParseCsv(CsvField(text) + ",x\n", {.has_header = false});
    ASSERT_TRUE(table.ok());
    EXPECT_EQ(table->rows[0].fields[0], text);
  }
}

}  // namespace
}  // namespace attnd::client
