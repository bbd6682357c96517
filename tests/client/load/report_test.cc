#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/histogram_codec.h"
#include "client/load/load_report.h"
#include "client/load/self_check.h"
#include "tests/client/load/simulated_run.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// 100/s for 10 s, answered in 20 ms; every tenth refused, with a text that
// every format must escape.
LoadReport Report() {
  LoadReport report;
  report.setting = {.target = "127.0.0.1:5",
                    .mode = "open loop, 100/s",
                    .work = {"B1"},
                    .in_flight = 1000,
                    .connections = 2,
                    .request_bytes = 2048};
  report.arrivals = EvenArrivals(100, 10);
  int number = 0;
  report.result = Simulate(
      {.arrivals = report.arrivals, .slots = 1000, .row_ns = kSecond},
      [&](const Attempt&, int64_t started) {
        AttemptEnd end = {.ended_ns = started + 20 * kMs};
        if (number++ % 10 == 9) {
          end.status = absl::UnavailableError("a \"full\" <queue> & more");
        }
        return end;
      });
  report.slo = CheckSlo(*ParseSlo("p99<30ms,errors<1%"), report.result);
  report.remarks = Remarks(report.result);
  report.invalid = Invalidities(report.result);
  return report;
}

TEST(Report, TextHasTheFigures) {
  EXPECT_THAT(
      ReportText(Report()),
      AllOf(HasSubstr("at most 1000 in flight, 2 connections to 127.0.0.1:5"),
            HasSubstr("1000 planned, 900 OK, 100 failed, 0 dropped"),
            HasSubstr("of 100/s planned"), HasSubstr("p99.9 20.0ms"),
            HasSubstr("100 x UNAVAILABLE: a \"full\" <queue> & more"),
            HasSubstr("met          p99<30ms"),
            HasSubstr("MISSED       errors<1%  (errors = 10%)"),
            Not(HasSubstr("INVALID"))));
}

TEST(Report, RatesHaveNoExponent) {
  EXPECT_EQ(RateText(0.01234), "0.01234");
  EXPECT_EQ(RateText(92.567), "92.57");
  EXPECT_EQ(RateText(999.96), "1000");
  EXPECT_EQ(RateText(10'532.4), "10532");
  EXPECT_EQ(RateText(2e6), "2000000");
}

TEST(Report, TextNamesAnInvalidRun) {
  LoadReport report;
  report.invalid = Invalidities(report.result);
  EXPECT_THAT(ReportText(report), HasSubstr("INVALID      no call"));
}

TEST(Report, JsonSaysTheSame) {
  google::protobuf::Struct json;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(ReportJson(Report()), &json)
          .ok());
  const auto& fields = json.fields();
  EXPECT_EQ(fields.at("schema").string_value(), "attnctl.load/1");
  EXPECT_TRUE(fields.at("open_loop").bool_value());
  EXPECT_EQ(fields.at("ok").number_value(), 900);
  EXPECT_NEAR(fields.at("planned_per_second").number_value(), 100, 1e-6);
  EXPECT_TRUE(fields.at("valid").bool_value());
  const auto& latency = fields.at("latency_seconds").struct_value().fields();
  EXPECT_NEAR(latency.at("p50").number_value(), 0.02, 2e-5);
  EXPECT_EQ(
      DecodeHistogram(latency.at("hdr_nanoseconds").string_value())->count(),
      900);
  EXPECT_EQ(fields.at("errors")
                .struct_value()
                .fields()
                .at("UNAVAILABLE")
                .struct_value()
                .fields()
                .at("example")
                .string_value(),
            "a \"full\" <queue> & more");
  const auto& timeline = fields.at("timeline").struct_value().fields();
  EXPECT_EQ(timeline.at("row_seconds").number_value(), 1);
  EXPECT_EQ(timeline.at("rows")
                .list_value()
                .values(3)
                .struct_value()
                .fields()
                .at("planned")
                .number_value(),
            100);
}

TEST(Report, CsvHasARowForEachStretch) {
  const std::string csv = ReportCsv(Report());
  const std::vector<std::string> lines = absl::StrSplit(csv, '\n');
  // The header, ten seconds, the end of the last call, and a line end.
  ASSERT_EQ(lines.size(), 13u);
  EXPECT_THAT(lines[0], StartsWith("seconds,row_seconds,planned,"));
  EXPECT_THAT(lines[4], StartsWith("3.000,1.000,100,100,"));
  const size_t columns =
      std::vector<std::string>(absl::StrSplit(lines[0], ',')).size();
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    EXPECT_EQ(std::vector<std::string>(absl::StrSplit(lines[i], ',')).size(),
              columns);
  }
}

TEST(Report, JunitFailsWhatWasMissed) {
  EXPECT_THAT(ReportJunit(Report()),
              AllOf(HasSubstr("tests=\"3\" failures=\"1\""),
                    HasSubstr("name=\"p99&lt;30ms\"/>"),
                    HasSubstr("name=\"errors&lt;1%\">\n      <failure "
                              "message=\"errors = 10%\"/>")));
}

TEST(Report, HtmlNeedsNothingButItself) {
  LoadReport report = Report();
  report.searched = true;
  report.trials = {
      {.rate = 100, .p50_ns = kMs, .p99_ns = 2 * kMs, .sustained = true},
      {.rate = 200,
       .p50_ns = 5 * kMs,
       .p99_ns = 90 * kMs,
       .reason = "missed <p99>"}};
  report.servers.push_back(
      {.url = "http://h/metrics",
       .samples = {{0, {{"process_resident_memory_bytes", 1e6}}},
                   {1, {{"process_resident_memory_bytes", 2e6}}}}});
  const std::string html = ReportHtml(report);
  EXPECT_THAT(html, StartsWith("<!DOCTYPE html>"));
  for (const char* title :
       {"Latency over time", "Percentiles", ">Rate<", "Failed and dropped",
        "the knee", "Memory", "missed &lt;p99&gt;",
        "a &quot;full&quot; &lt;queue&gt; &amp; more"}) {
    EXPECT_THAT(html, HasSubstr(title));
  }
  for (const char* foreign :
       {"<script", "src=", "href=", "url(http", "@import", "nan", "inf\""}) {
    EXPECT_THAT(html, Not(HasSubstr(foreign)));
  }
  // Every element of the drawings that opens also closes.
  const auto count = [&](const std::string& what) {
    size_t found = 0;
    for (size_t at = html.find(what); at != std::string::npos;
         at = html.find(what, at + 1)) {
      ++found;
    }
    return found;
  };
  for (const char* element : {"svg", "g", "table", "tr", "td", "div"}) {
    EXPECT_EQ(count(absl::StrCat("<", element, " ")) +
                  count(absl::StrCat("<", element, ">")),
              count(absl::StrCat("</", element, ">")))
        << element;
  }
}

TEST(Report, AnEmptyRunStillHasAPage) {
  EXPECT_THAT(ReportHtml({}), HasSubstr("nothing to show"));
}

}  // namespace
}  // namespace attnd::client
