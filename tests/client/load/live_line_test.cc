#include "client/load/live_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/client/load/simulated_run.h"

namespace attnd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(LiveLineTest, LeavesOutWhatMattersLeast) {
  const std::vector<LiveField> fields = {
      {"100/s", 0}, {"3 in flight", 2}, {"9s left", 1}};
  EXPECT_EQ(FitLine(fields, 80), "100/s  3 in flight  9s left");
  EXPECT_EQ(FitLine(fields, 28), "100/s  3 in flight  9s left");
  EXPECT_EQ(FitLine(fields, 27), "100/s  9s left");
  EXPECT_EQ(FitLine(fields, 14), "100/s");
  EXPECT_EQ(FitLine(fields, 4), "100");
  EXPECT_EQ(FitLine(fields, 0), "");
}

// The last thing that was written to a line of 200 columns.
struct Screen {
  std::string text() const {
    const std::string all = out.str();
    return all.substr(all.rfind('\x1b') + 4);
  }
  std::ostringstream out;
  LiveLine line{out, [] { return 200; }};
};

// 100/s of 20 ms, looked at twice a second as a runner does.
TEST(RunLineTest, TellsRatePercentilesAndTimeLeft) {
  Screen screen;
  RunLine run(screen.line, "trial 1:", 1, 11, 0);
  Conductor conductor({.arrivals = EvenArrivals(100, 11),
                       .slots = 1000,
                       .warm_up_ns = kSecond,
                       .duration_ns = 10 * kSecond});
  std::string text;
  for (int64_t now = 0; now <= 4 * kSecond; now += 10 * kMs) {
    while (const auto attempt = conductor.Take(now)) {
      conductor.End({.slot = attempt->slot,
                     .started_ns = now,
                     .ended_ns = now + 20 * kMs});
    }
    if (now % (kSecond / 2) != 0) continue;
    run.Observe(conductor, now);
    run.Show();
    if (now == kSecond / 2) {
      EXPECT_EQ(screen.text(), "trial 1:  warm-up, 1s left  0 in flight");
    }
  }
  // The timeline keeps two digits.
  EXPECT_THAT(screen.text(),
              MatchesRegex("trial 1:  100/s  0 in flight  p50 20\\.[012]ms  "
                           "p99 20\\.[012]ms  7s left"));
}

TEST(RunLineTest, KnowsTheTimeLeftOfARunOfCalls) {
  Screen screen;
  RunLine run(screen.line, "", 0, 0, 400);
  Conductor conductor(
      {.arrivals = EvenArrivals(1, 1e6), .slots = 1, .calls = 400});
  for (int64_t now = 0; now < 100 * kSecond; now += kSecond) {
    const auto attempt = conductor.Take(now);
    conductor.End({.slot = attempt->slot,
                   .started_ns = now,
                   .ended_ns = now,
                   .status = absl::AbortedError("no")});
  }
  run.Observe(conductor, 100 * kSecond);
  run.Show();
  EXPECT_THAT(screen.text(), HasSubstr("ABORTED 100  5:00 left"));
}

}  // namespace
}  // namespace attnd::client
