// Service levels, the self-check, and the search of the largest rate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/load/max_search.h"
#include "client/load/self_check.h"
#include "client/load/server_metrics.h"
#include "client/load/slo.h"
#include "tests/client/load/simulated_run.h"

namespace attnd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// 1000 answers of 1 to 1000 ms, 3 failures.
LoadResult Spread() {
  LoadResult result;
  for (int i = 1; i <= 1000; ++i) result.all.latency_ns.Record(i * kMs);
  result.all.ok = 1000;
  result.all.failed = 3;
  result.planned = 1003;
  result.span_seconds = 10;
  return result;
}

bool Met(const char* slo, const LoadResult& result = Spread()) {
  const auto clauses = ParseSlo(slo);
  EXPECT_TRUE(clauses.ok()) << clauses.status();
  return AllMet(CheckSlo(*clauses, result));
}

TEST(Slo, ComparesWhatItNames) {
  EXPECT_TRUE(Met("p50<510ms,errors<1%"));
  EXPECT_FALSE(Met("p50<490ms,errors<1%"));
  EXPECT_TRUE(Met("p99.9 < 1.01s, max < 1.01s, errors < 0.003"));
  EXPECT_FALSE(Met("p50<1h,errors<0.29%"));
  EXPECT_TRUE(Met("mean<510ms,errors<1%,rate>99"));
  EXPECT_FALSE(Met("rate>101,errors<1%"));
}

TEST(Slo, WithoutAClauseOnErrorsAllowsFew) {
  EXPECT_FALSE(Met("p50<510ms"));
  LoadResult result = Spread();
  result.all.failed = 0;
  result.planned = 1000;
  EXPECT_TRUE(Met("p50<510ms", result));
  EXPECT_TRUE(Met("p50<510ms,errors<0%", result));
}

TEST(Slo, DroppedCallsAreErrors) {
  LoadResult result = Spread();
  result.dropped = 100;
  EXPECT_FALSE(Met("p50<510ms,errors<1%", result));
}

TEST(Slo, NothingAnsweredMeetsNothing) {
  EXPECT_FALSE(Met("p99<1s,errors<100%", LoadResult()));
}

TEST(Slo, SaysWhatItDoesNotUnderstand) {
  for (const char* wrong :
       {"", "p99", "p99<20", "p0<1ms", "p101<1ms", "q99<1ms", "p99>1ms",
        "errors<2", "errors<-1%", "rate<5", "p99<0ms", "p99<1ms,,"}) {
    const auto slo = ParseSlo(wrong);
    EXPECT_FALSE(slo.ok()) << wrong;
    EXPECT_THAT(std::string(slo.status().message()), HasSubstr("--slo"));
  }
}

TEST(SelfCheck, AGoodRunIsValid) {
  LoadResult result = Spread();
  result.run_seconds = 10;
  result.thread_cpu_seconds = 8.9;
  result.lag_ns.Record(40 * kMs, 1000);  // a twelfth of the median
  EXPECT_THAT(Invalidities(result), IsEmpty());
}

TEST(SelfCheck, ABusyThreadIsTheBottleneck) {
  LoadResult result = Spread();
  result.run_seconds = 10;
  result.thread_cpu_seconds = 9.1;
  ASSERT_EQ(Invalidities(result).size(), 1u);
  EXPECT_THAT(Invalidities(result)[0], HasSubstr("bottleneck"));
}

TEST(SelfCheck, ALateClientMeasuredItself) {
  LoadResult result = Spread();
  result.lag_ns.Record(kMs / 10, 985);
  result.lag_ns.Record(60 * kMs, 15);
  ASSERT_EQ(Invalidities(result).size(), 1u);
  EXPECT_THAT(Invalidities(result)[0], HasSubstr("--max-lag"));
  EXPECT_THAT(Invalidities(result, kSecond), IsEmpty());
  EXPECT_EQ(Invalidities(result, 59 * kMs).size(), 1u);
}

TEST(SelfCheck, AnInterruptedRunIsInvalid) {
  LoadResult result = Spread();
  result.interrupted = true;
  ASSERT_EQ(Invalidities(result).size(), 1u);
  EXPECT_THAT(Invalidities(result)[0], HasSubstr("interrupted"));
}

TEST(SelfCheck, WithoutAnswersThereIsNoRun) {
  EXPECT_EQ(Invalidities(LoadResult())[0], "no call was measured");
  LoadResult result;
  result.all.failed = result.planned = 2;
  EXPECT_EQ(Invalidities(result)[0], "none of 2 calls succeeded");
}

// Case C26 again: figures are right, and the reader is told.
TEST(SelfCheck, AMissedScheduleIsFlagged) {
  const LoadResult result =
      Simulate({.arrivals = EvenArrivals(5, 2), .wait_when_full = true},
               ConstantServer(260 * kMs));
  EXPECT_THAT(Invalidities(result), IsEmpty());
  ASSERT_EQ(Remarks(result).size(), 1u);
  EXPECT_THAT(Remarks(result)[0],
              HasSubstr("Reached 3.846 of 5 planned per second"));
}

std::optional<double> SearchFor(double capacity, double first, double precision,
                                int* trials) {
  MaxSearch search(first, precision);
  *trials = 0;
  while (const auto rate = search.Next()) {
    ++*trials;
    search.Tell(*rate <= capacity);
  }
  return search.found();
}

TEST(MaxSearch, FindsTheCapacityFromAnywhere) {
  for (double capacity : {0.5, 37.0, 1000.0, 123'456.0}) {
    for (double first : {1.0, 100.0, 50'000.0}) {
      int trials;
      const auto found = SearchFor(capacity, first, 0.05, &trials);
      ASSERT_TRUE(found.has_value());
      EXPECT_LE(*found, capacity);
      EXPECT_GE(*found, capacity / 1.05);
      // Doublings, then halvings of a factor 2 to 5 %, and the second success.
      EXPECT_LE(trials, std::abs(std::log2(capacity / first)) + 8);
    }
  }
}

TEST(MaxSearch, WantsTwoSuccessesInARow) {
  // The capacity falls by a fifth after 8 trials: a lucky rate must not stand.
  MaxSearch search(100, 0.05);
  double capacity = 1000;
  int trials = 0;
  while (const auto rate = search.Next()) {
    if (++trials == 8) capacity = 800;
    search.Tell(*rate <= capacity);
  }
  ASSERT_TRUE(search.found().has_value());
  EXPECT_LE(*search.found(), 800);
  EXPECT_GE(*search.found(), 800 / 1.05 / 1.05);
}

TEST(MaxSearch, GivesUpWhenNothingIsSustained) {
  int trials;
  EXPECT_FALSE(SearchFor(0, 100, 0.05, &trials).has_value());
  EXPECT_LE(trials, 40);
}

// One worker of 10 ms sustains 100 a second; at 110 its queue grows by 10 calls
// or 100 ms a second, which a short run must show.
LoadResult OneWorker(double rate) {
  int64_t free_at = 0;
  return Simulate(
      {.arrivals = Arrivals::Poisson(*RateProfile::Make({{5, rate, rate}}), 4),
       .slots = 10'000},
      [&](const Attempt&, int64_t started) {
        free_at = std::max(free_at, started) + 10 * kMs;
        return AttemptEnd{.ended_ns = free_at};
      });
}

TEST(Stable, AGrowingQueueIsNot) {
  EXPECT_TRUE(Stable(OneWorker(50)));
  EXPECT_TRUE(Stable(OneWorker(80)));
  EXPECT_FALSE(Stable(OneWorker(130)));
  EXPECT_FALSE(Stable(OneWorker(200)));
  // Dropping keeps the queue short, and is no way out.
  EXPECT_FALSE(Stable(
      Simulate({.arrivals = EvenArrivals(100, 5)}, ConstantServer(20 * kMs))));
}

TEST(Search, FindsTheCapacityOfASimulatedServer) {
  MaxSearch search(10, 0.05);
  const auto slo = *ParseSlo("p99<100ms");
  while (const auto rate = search.Next()) {
    int64_t free_at = 0;
    const LoadResult result =
        Simulate({.arrivals = EvenArrivals(*rate, 10), .slots = 10'000},
                 [&](const Attempt&, int64_t started) {
                   free_at = std::max(free_at, started) + 10 * kMs;
                   return AttemptEnd{.ended_ns = free_at};
                 });
    search.Tell(AllMet(CheckSlo(slo, result)) && Stable(result));
  }
  // Above 100/s the backlog of 10 s at 1 % too much is 100 ms.
  ASSERT_TRUE(search.found().has_value());
  EXPECT_GE(*search.found(), 95);
  EXPECT_LE(*search.found(), 101.1);
}

TEST(ThinSamples, KeepsBothEndsAndHalfOfTheRest) {
  std::vector<MetricSample> samples;
  const size_t scrapes = 10 * kMaxSamples + 7;
  for (size_t i = 0; i < scrapes; ++i) {
    samples.push_back({.seconds = static_cast<double>(i)});
    ThinSamples(&samples);
    EXPECT_LT(samples.size(), kMaxSamples);
    EXPECT_EQ(samples.front().seconds, 0);
    EXPECT_EQ(samples.back().seconds, static_cast<double>(i));
  }
  EXPECT_GT(samples.size(), kMaxSamples / 2);
  for (size_t i = 1; i < samples.size(); ++i) {
    EXPECT_LT(samples[i - 1].seconds, samples[i].seconds);
  }
}

}  // namespace
}  // namespace attnd::client
