#include "client/load/conductor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "client/status_from_wire.h"
#include "tests/client/load/counted_allocations.h"
#include "tests/client/load/simulated_run.h"
#include "tests/client/stub_service.h"

namespace attnd::client {
namespace {

using ::testing::ElementsAre;

// Percentile to the three digits that a histogram keeps.
void ExpectNs(int64_t actual, double expected) {
  EXPECT_NEAR(static_cast<double>(actual), expected, expected * 1e-3 + 1);
}

absl::Status Refused(absl::Duration retry_after) {
  const grpc::Status status = Refusal(grpc::StatusCode::UNAVAILABLE,
                                      "queue full", {RetryAfter(retry_after)});
  return StatusFromWire(status.error_code(), status.error_message(),
                        status.error_details());
}

// Case C26: constant 260 ms, one call at a time, 5 calls/s, 10 calls.
TEST(OpenLoop, LatencyRunsFromThePlannedMoment) {
  const LoadResult result =
      Simulate({.arrivals = EvenArrivals(5, 2), .wait_when_full = true},
               ConstantServer(260 * kMs));
  EXPECT_EQ(result.all.ok, 10);
  for (int n = 1; n <= 10; ++n) {
    ExpectNs(result.all.latency_ns.ValueAtPercentile(10.0 * n),
             (260 + 60 * (n - 1)) * 1e6);
  }
  ExpectNs(std::llround(result.all.latency_ns.Mean()), 530e6);
  ExpectNs(result.all.latency_ns.Max(), 800e6);
  ExpectNs(result.all.service_ns.Min(), 260e6);
  ExpectNs(result.all.service_ns.Max(), 260e6);
  EXPECT_NEAR(result.Throughput(), 10 / 2.6, 1e-9);
  EXPECT_NEAR(result.PlannedRate(), 5, 1e-9);
  EXPECT_EQ(result.waited, 9);
  EXPECT_EQ(result.dropped, 0);
  // The wait is the cap's doing, not a lag of this client.
  EXPECT_EQ(result.lag_ns.count(), 1);
}

TEST(OpenLoop, AFullCapDropsAndCounts) {
  const LoadResult result =
      Simulate({.arrivals = EvenArrivals(5, 2)}, ConstantServer(260 * kMs));
  // Every second arrival finds the one before in flight.
  EXPECT_EQ(result.planned, 10);
  EXPECT_EQ(result.all.ok, 5);
  EXPECT_EQ(result.dropped, 5);
  EXPECT_EQ(result.waited, 0);
  EXPECT_DOUBLE_EQ(result.ErrorShare(), 0.5);
  ExpectNs(result.all.latency_ns.Max(), 260e6);
}

// wrk2's rule: a server frozen for 2 s of 10 s delays the calls of those 2 s,
// by 2 s to 0, evenly: the fraction above x is 0.2 (2 s - x) / 2 s.
TEST(OpenLoop, AFreezeShowsInProportion) {
  const SimulatedServer frozen = [](const Attempt&, int64_t started) {
    const bool asleep = started >= 4 * kSecond && started < 6 * kSecond;
    return AttemptEnd{.ended_ns = (asleep ? 6 * kSecond : started) + kMs};
  };
  for (bool wait : {false, true}) {
    const LoadResult result = Simulate({.arrivals = EvenArrivals(1000, 10),
                                        .slots = wait ? 100 : 5000,
                                        .wait_when_full = wait,
                                        .row_ns = kSecond},
                                       frozen);
    EXPECT_EQ(result.all.ok, 10'000);
    const Histogram& latency = result.all.latency_ns;
    EXPECT_LE(latency.ValueAtPercentile(79), 2 * kMs);
    for (double percent : {85.0, 90.0, 95.0, 99.0}) {
      const double expected = 2e9 * (1 - (1 - percent / 100) / 0.2);
      EXPECT_NEAR(static_cast<double>(latency.ValueAtPercentile(percent)),
                  expected, 25e6)
          << percent << (wait ? ", cap of 100" : "");
    }
    // What a tool that times its own sending would have said.
    if (wait) {
      EXPECT_LE(result.all.service_ns.ValueAtPercentile(98), 2 * kMs);
    }
    // And the timeline says when.
    EXPECT_LE(result.timeline.row(3).latency_ns.Max(), 2 * kMs);
    EXPECT_GE(result.timeline.row(4).latency_ns.ValueAtPercentile(50), kSecond);
  }
}

TEST(OpenLoop, WarmUpIsApart) {
  const LoadResult result = Simulate(
      {.arrivals = EvenArrivals(10, 3), .slots = 100, .warm_up_ns = kSecond},
      ConstantServer(10 * kMs));
  EXPECT_EQ(result.warm_up_calls, 10);
  EXPECT_EQ(result.all.ok, 20);
  EXPECT_EQ(result.all.latency_ns.count(), 20);
  EXPECT_NEAR(result.span_seconds, 1.9 + 0.01, 1e-9);
  EXPECT_EQ(result.timeline.row(0).planned, 1);
}

TEST(OpenLoop, CallsOrTimeEndIt) {
  EXPECT_EQ(Simulate({.arrivals = EvenArrivals(10, 1e6), .calls = 7},
                     ConstantServer(kMs))
                .all.ok,
            7);
  EXPECT_EQ(Simulate({.arrivals = EvenArrivals(10, 1e6),
                      .warm_up_ns = kSecond,
                      .duration_ns = 2 * kSecond},
                     ConstantServer(kMs))
                .all.ok,
            20);
}

TEST(ClosedLoop, ThroughputIsOverTheTrueSpan) {
  const LoadResult result = Simulate({.calls = 30}, ConstantServer(20 * kMs));
  EXPECT_EQ(result.all.ok, 30);
  EXPECT_NEAR(result.span_seconds, 0.6, 1e-9);
  EXPECT_NEAR(result.Throughput(), 50, 1e-9);
}

// Little's law: n in flight, each for w, is n / w answers a second.
TEST(ClosedLoop, KeepsItsNumberInFlight) {
  const LoadResult result = Simulate(
      {.slots = 20, .warm_up_ns = kSecond, .duration_ns = 10 * kSecond},
      ConstantServer(50 * kMs));
  EXPECT_EQ(result.all.ok, 20 * 200);
  EXPECT_EQ(result.warm_up_calls, 20 * 20);
  EXPECT_NEAR(result.Throughput(), 400, 1e-9);
}

TEST(Failures, AreCountedByCodeWithTheFirstText) {
  int number = 0;
  const LoadResult result =
      Simulate({.calls = 20}, [&](const Attempt&, int64_t started) {
        const bool good = number++ % 2 == 0;
        return AttemptEnd{.ended_ns = started + kMs,
                          .status = good ? absl::OkStatus()
                                         : absl::UnavailableError(
                                               absl::StrCat("number ", number)),
                          .endpoint = good ? 0 : 1};
      });
  EXPECT_EQ(result.all.ok, 10);
  EXPECT_EQ(result.all.failed, 10);
  EXPECT_EQ(result.attempts, 20);
  const ErrorCount& errors =
      result.all.errors.at(absl::StatusCode::kUnavailable);
  EXPECT_EQ(errors.count, 10);
  EXPECT_EQ(errors.example, "number 2");
  EXPECT_EQ(result.all.latency_ns.count(), 10);
  ASSERT_EQ(result.endpoints.size(), 2u);
  EXPECT_EQ(result.endpoints[0].ok, 10);
  EXPECT_EQ(result.endpoints[1].failed, 10);
}

TEST(Retries, ObeyTheServerAndAreCounted) {
  std::vector<int64_t> moments;
  std::vector<int> previous;
  const LoadResult result = Simulate(
      {.calls = 1, .max_attempts = 4},
      [&](const Attempt& attempt, int64_t started) {
        moments.push_back(started);
        previous.push_back(attempt.previous);
        return AttemptEnd{.ended_ns = started + kMs,
                          .status = attempt.previous < 2
                                        ? Refused(absl::Milliseconds(100))
                                        : absl::OkStatus()};
      });
  EXPECT_THAT(previous, ElementsAre(0, 1, 2));
  EXPECT_EQ(result.attempts, 3);
  EXPECT_EQ(result.all.ok, 1);
  EXPECT_EQ(result.all.failed, 0);
  for (int i : {1, 2}) {
    EXPECT_GE(moments[i] - moments[i - 1], 101 * kMs);
    EXPECT_LE(moments[i] - moments[i - 1], 121 * kMs);
  }
  // Of the whole call, waits included; service time is of the last attempt.
  ExpectNs(result.all.latency_ns.Max(), moments[2] + 1e6);
  ExpectNs(result.all.service_ns.Max(), 1e6);
}

TEST(Retries, NeverPassTheTimeOut) {
  const LoadResult result =
      Simulate({.calls = 1, .max_attempts = 100, .timeout_ns = kSecond},
               [](const Attempt& attempt, int64_t started) {
                 EXPECT_LE(started + attempt.timeout_ns, kSecond);
                 return AttemptEnd{.ended_ns = started,
                                   .status = Refused(absl::Milliseconds(200))};
               });
  EXPECT_EQ(result.all.failed, 1);
  EXPECT_GE(result.attempts, 4);
  EXPECT_LE(result.attempts, 5);
}

TEST(Mix, FollowsItsWeightsAndTakesRequestsInTurn) {
  std::vector<int> sent(6);
  const LoadResult result = Simulate(
      {.calls = 10'000,
       .work = {{.name = "a", .weight = 3, .requests = 4, .request_bytes = 1},
                {.name = "b", .weight = 1, .requests = 2}}},
      [&](const Attempt& attempt, int64_t started) {
        ++sent[attempt.request];
        return AttemptEnd{.ended_ns = started + kMs};
      });
  EXPECT_EQ(result.work[0].ok + result.work[1].ok, 10'000);
  EXPECT_NEAR(static_cast<double>(result.work[0].ok), 7500,
              5 * std::sqrt(10'000 * 0.75 * 0.25));
  EXPECT_EQ(result.work[0].request_bytes, result.work[0].ok);
  for (int request : {1, 2, 3}) EXPECT_NEAR(sent[request], sent[0], 1);
  EXPECT_NEAR(sent[4], sent[5], 1);
}

TEST(Verify, ChoosesTheShareAskedFor) {
  Conductor conductor({.calls = 10'000, .verify_share = 0.1});
  int chosen = 0;
  for (int64_t now = 0; const auto attempt = conductor.Take(now); now += kMs) {
    const auto answer =
        conductor.End({.slot = attempt->slot, .ended_ns = now + kMs});
    ASSERT_TRUE(answer.has_value());
    chosen += answer->verify;
  }
  EXPECT_NEAR(chosen, 1000, 5 * std::sqrt(900));
}

TEST(Conductor, SendingAllocatesNothing) {
  Conductor conductor({.arrivals = EvenArrivals(1000, 1000), .slots = 100});
  // The first end makes the endpoint known.
  conductor.Take(0);
  conductor.End({.slot = 0, .ended_ns = kMs, .endpoint = 0});
  const int64_t before = AllocationCount();
  for (int64_t now = kMs; now < 900 * kSecond; now += 977 * kMs / 1000) {
    if (const auto attempt = conductor.Take(now)) {
      conductor.End({.slot = attempt->slot,
                     .started_ns = now,
                     .ended_ns = now + now / 100,
                     .endpoint = 0});
    }
  }
  EXPECT_EQ(AllocationCount() - before, 0);
  EXPECT_GT(conductor.result().all.ok, 800'000);
}

TEST(Conductor, StopsWhenAsked) {
  Conductor conductor({.arrivals = EvenArrivals(10, 100), .slots = 10});
  const auto attempt = conductor.Take(0);
  conductor.Stop();
  EXPECT_FALSE(conductor.Take(kSecond).has_value());
  EXPECT_FALSE(conductor.finished());
  conductor.End({.slot = attempt->slot, .ended_ns = kSecond});
  EXPECT_TRUE(conductor.finished());
  EXPECT_TRUE(conductor.Finish().interrupted);
}

TEST(Timeline, DoublesItsRowsInsteadOfGrowing) {
  Timeline timeline(kSecond, 4);
  for (int64_t second = 0; second < 11; ++second) {
    timeline.Count(Timeline::Event::kOk, second * kSecond);
    timeline.Latency(second * kSecond, (second + 1) * kMs);
  }
  EXPECT_EQ(timeline.row_ns(), 4 * kSecond);
  ASSERT_EQ(timeline.size(), 3);
  EXPECT_EQ(timeline.row(0).ok, 4);
  EXPECT_EQ(timeline.row(1).ok, 4);
  EXPECT_EQ(timeline.row(2).ok, 3);
  EXPECT_EQ(timeline.row(1).latency_ns.count(), 4);
  EXPECT_NEAR(timeline.row(2).latency_ns.Mean(), 10e6, 0.1e6);
}

}  // namespace
}  // namespace attnd::client
