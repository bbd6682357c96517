#include "client/load/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/load/load_report.h"
#include "tests/client/load/simulated_run.h"

namespace attnd::client {
namespace {

// A run of a minute whose service times are exponential, with the given mean.
ComparedRun Exponential(double mean_ms, uint64_t seed) {
  Random random(seed);
  LoadReport report;
  report.setting.mode = "open loop";
  report.setting.work = {"a", "b"};
  report.result = Simulate(
      {.arrivals = EvenArrivals(50, 40), .slots = 1000, .row_ns = kSecond},
      [&](const Attempt&, int64_t started) {
        return AttemptEnd{
            .ended_ns =
                started + std::llround(mean_ms * 1e6 * random.Exponential())};
      });
  const auto run = ParseRun(ReportJson(report));
  EXPECT_TRUE(run.ok()) << run.status();
  return *run;
}

const ComparedFigure& Find(const std::vector<ComparedFigure>& figures,
                           const std::string& name) {
  for (const ComparedFigure& figure : figures) {
    if (figure.name == name) return figure;
  }
  ADD_FAILURE() << name;
  return figures.front();
}

TEST(ParseRun, ReadsWhatTheReportWrites) {
  const ComparedRun run = Exponential(10, 1);
  EXPECT_EQ(run.mode, "open loop");
  EXPECT_EQ(run.work, "a; b");
  EXPECT_TRUE(run.valid);
  EXPECT_EQ(run.row_seconds, 1);
  ASSERT_GE(run.rows.size(), 39u);
  EXPECT_NEAR(static_cast<double>(run.rows[7].ok), 50, 3);
  EXPECT_EQ(run.rows[7].latency_ns.count(), 50);
}

TEST(ParseRun, RefusesOtherFiles) {
  EXPECT_FALSE(ParseRun("").ok());
  EXPECT_FALSE(ParseRun("[1]").ok());
  EXPECT_FALSE(ParseRun("{\"schema\": \"attnctl.load/1\"}").ok());
}

TEST(Compare, FindsADifference) {
  const auto figures = Compare(Exponential(10, 1), Exponential(13, 2));
  const ComparedFigure& mean = Find(figures, "mean");
  EXPECT_NEAR(mean.ratio(), 1.3, 0.15);
  EXPECT_TRUE(mean.Above(1));
  EXPECT_LE(mean.low, 1.3);
  EXPECT_GE(mean.high, 1.3);
  EXPECT_TRUE(Find(figures, "p50").Above(1));
  // The rate is the schedule's, and the same.
  EXPECT_NEAR(Find(figures, "answers/s").ratio(), 1, 0.02);
}

// Every third of them fails, and for 20 of 40 seconds there is no answer at
// all.
ComparedRun Failing(int64_t answers_until_ns) {
  LoadReport report;
  int number = 0;
  report.result = Simulate(
      {.arrivals = EvenArrivals(50, 40), .slots = 1000, .row_ns = kSecond},
      [&](const Attempt&, int64_t started) {
        AttemptEnd end{.ended_ns = started + 10 * kMs};
        if (number++ % 3 == 0 || started >= answers_until_ns) {
          end.status = absl::InternalError("no");
        }
        return end;
      });
  const auto run = ParseRun(ReportJson(report));
  EXPECT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->answers_per_second, report.result.Throughput());
  EXPECT_EQ(run->error_share, report.result.ErrorShare());
  return *run;
}

TEST(Compare, ShowsTheReportsOwnThroughputAndErrors) {
  const ComparedRun good = Exponential(10, 1);
  const ComparedRun bad = Failing(40 * kSecond);
  const auto figures = Compare(good, bad);
  EXPECT_EQ(Find(figures, "answers/s").b, bad.answers_per_second);
  const ComparedFigure& errors = Find(figures, "errors");
  EXPECT_EQ(errors.a, 0);
  EXPECT_NEAR(errors.b, 1.0 / 3, 1e-3);
  EXPECT_TRUE(errors.Above(1));
  EXPECT_EQ(Find(Compare(good, good), "errors").ratio(), 1);
}

// One second of 40 has answers: a third of the resamples have none.
TEST(Compare, ResamplesWithoutAnswersMakeNoWildIntervals) {
  const ComparedRun rare = Failing(kSecond);
  for (const ComparedFigure& figure : Compare(rare, rare)) {
    for (double bound : {figure.low, figure.high}) {
      EXPECT_TRUE(std::isinf(bound) || (bound >= 0 && bound < 1e3))
          << figure.name << " " << bound;
    }
  }
  EXPECT_TRUE(std::isinf(Find(Compare(rare, rare), "answers/s").high));
}

// 95 % of 60 are 57 +- 1.7; the bootstrap of 40 stretches is a little narrow,
// and five deviations leave room for it.
TEST(Compare, IntervalsHoldTheTruthAboutAsOftenAsTheySay) {
  int held = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto figures =
        Compare(Exponential(10, 2 * seed), Exponential(10, 2 * seed + 1), seed);
    const ComparedFigure& mean = Find(figures, "mean");
    held += mean.low <= 1 && 1 <= mean.high;
  }
  EXPECT_GE(held, 48);
}

}  // namespace
}  // namespace attnd::client
