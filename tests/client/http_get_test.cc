#include "client/http_get.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/load/server_metrics.h"
#include "tests/client/http_stub.h"

namespace attnd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TEST(HttpGet, BringsTheBody) {
  HttpStub stub([](int) { return HttpOk("a 1\r\n\r\nb 2\n"); });
  const auto body = HttpGet(absl::StrCat("http://", stub.address(), "/metrics"),
                            absl::Seconds(20));
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(*body, "a 1\r\n\r\nb 2\n");
  EXPECT_THAT(stub.last_request(), StartsWith("GET /metrics HTTP/1.0\r\n"));
  EXPECT_THAT(stub.last_request(),
              HasSubstr(absl::StrCat("Host: ", stub.address(), "\r\n")));
}

TEST(HttpGet, SaysWhatElseCame) {
  HttpStub stub([](int) {
    return std::string("HTTP/1.1 404 Not Found\r\n\r\nnothing here");
  });
  const auto body =
      HttpGet(absl::StrCat("http://", stub.address()), absl::Seconds(20));
  EXPECT_TRUE(absl::IsFailedPrecondition(body.status()));
  EXPECT_THAT(std::string(body.status().message()), HasSubstr("404"));
}

TEST(HttpGet, RefusesOtherAddresses) {
  for (const char* url :
       {"https://host/", "host:9090/metrics", "http://", "http://:80/",
        "http://host/a b", "http://h/\r\nX:"}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(HttpGet(url, absl::Seconds(1)).status()))
        << url;
  }
}

TEST(HttpGet, WaitsNoLongerThanToldTo) {
  HttpStub stub([](int) { return std::string(); }, /*silent=*/true);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      HttpGet(absl::StrCat("http://", stub.address(), "/"),
              absl::Milliseconds(50))
          .status()));
}

TEST(ParseMetrics, SumsOverLabels) {
  const MetricValues values = ParseMetrics(
      "# HELP requests_total Some.\n"
      "# TYPE requests_total counter\n"
      "requests_total{code=\"OK\",path=\"a}b\\\"\"} 3\n"
      "requests_total{code=\"UNAVAILABLE\"} 4 1700000000000\n"
      "plain 2.5e3\n"
      "stage_seconds_sum{method=\"m\",stage=\"queue\"} 1\n"
      "stage_seconds_sum{method=\"n\",stage=\"queue\"} 2\n"
      "stage_seconds_sum{method=\"m\",stage=\"compute\"} 8\n"
      "odd NaN\n"
      "broken{ 3\n"
      "alone\n");
  EXPECT_EQ(values.at("requests_total"), 7);
  EXPECT_EQ(values.at("plain"), 2500);
  EXPECT_EQ(values.at("stage_seconds_sum"), 11);
  EXPECT_EQ(values.at("stage_seconds_sum{stage=\"queue\"}"), 3);
  EXPECT_EQ(
      values.count("odd") + values.count("broken") + values.count("alone"), 0u);
}

TEST(ParseMetrics, KeepsTenantsApart) {
  const auto offered = [](const char* text) {
    return OfferedByTenant({.samples = {{0, {}}, {1, ParseMetrics(text)}}});
  };
  EXPECT_THAT(
      offered("attnd_offered_worker_seconds_total{tenant_class=\"default\"} 0\n"
              "attnd_offered_worker_seconds_total{tenant_class=\"a\"} 2\n"
              "attnd_offered_worker_seconds_total{tenant_class=\"b}\"} 3\n"),
      UnorderedElementsAre(Pair("a", 2), Pair("b}", 3)));
  // Nobody to tell apart.
  EXPECT_THAT(
      offered("attnd_offered_worker_seconds_total{tenant_class=\"default\"} 4"),
      IsEmpty());
}

TEST(MetricsScraper, ScrapesBeforeAndAfter) {
  HttpStub stub([](int number) {
    return HttpOk(absl::StrCat("calls_total ", 10 + number, "\n"));
  });
  auto scraper =
      MetricsScraper::Start(absl::StrCat("http://", stub.address(), "/"));
  ASSERT_TRUE(scraper.ok()) << scraper.status();
  const ServerMetrics metrics = (*scraper)->Stop();
  ASSERT_GE(metrics.samples.size(), 2u);
  EXPECT_EQ(metrics.failed_scrapes, 0);
  EXPECT_EQ(metrics.Difference("calls_total"),
            static_cast<double>(metrics.samples.size() - 1));
  EXPECT_EQ(metrics.Difference("unknown"), 0);
  EXPECT_FALSE(MetricsScraper::Start("http://127.0.0.1:1/").ok());
}

}  // namespace
}  // namespace attnd::client
