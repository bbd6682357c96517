// A server under load: what it promises, as figures. One worker, and requests
// of 10 to 20 ms, so that two processors serve both sides.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/proof/offered_load.h"
#include "tests/proof/proof_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

// The same tensors in half the bytes.
v1::AttendRequest InBf16(v1::AttendRequest request) {
  for (v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(),
                             request.mutable_value()}) {
    std::vector<uint16_t> halves;
    for (const float value : FromBytes<float>(tensor->data())) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      halves.push_back(static_cast<uint16_t>(bits >> 16));
    }
    tensor->set_dtype(v1::DTYPE_BF16);
    tensor->set_data(ToBytes(halves));
  }
  return request;
}

class LoadProof : public ProofTest {
 protected:
  static double OwnCpuSeconds() {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) +
             1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }

  // H1 L4096 D16: 10 to 20 ms, 384 KiB in.
  const v1::AttendRequest request_ = InBf16(
      MakeRequest({.queries = 4096, .keys = 4096, .dim = 16, .value_dim = 16}));
  // About 1 ms.
  const v1::AttendRequest small_ = InBf16(
      MakeRequest({.queries = 1024, .keys = 1024, .dim = 16, .value_dim = 16}));
};

TEST_F(LoadProof, Overload) {
  Start("workers: 1\n");
  const double capacity =
      ClosedLoop(address(), request_, 2, seconds(10, 2)).goodput();
  Show("capacity, closed loop, calls/s", capacity);
  const double deadline = Deadline(0.1, 10, capacity);
  for (const int times : {2, 10}) {
    const double client_cpu = OwnCpuSeconds();
    const auto outcomes = Offer(address(), {.request = request_,
                                            .per_second = times * capacity,
                                            .seconds = seconds(),
                                            .deadline_seconds = deadline});
    const auto name = [&](const char* what) {
      return absl::StrCat(times, "x: ", what);
    };
    AtLeast(name("goodput over capacity"), outcomes.goodput() / capacity, 0.9,
            0.05);
    AtLeast(
        name("share of the admitted in time"),
        outcomes.ok() / std::max(1.0, 1.0 * outcomes.ok() + outcomes.late()),
        0.99, 0.1);
    AtMost(name("refusals, p99, ms"), 1e3 * Quantile(outcomes.refusals, 0.99),
           5, 5000);
    Show(name("CPU of the client, ms a call"),
         1e3 * (OwnCpuSeconds() - client_cpu) / outcomes.calls());
    EXPECT_GT(outcomes.refusals.size(), 0u);
    for (const auto& [code, count] : outcomes.codes) {
      EXPECT_TRUE(code == kOk || code == kDeadlineExceeded ||
                  code == kUnavailable)
          << code;
    }
  }
  // Of 10 times 0.1 s of messages, far less.
  AtMost("resident memory after it, MiB",
         Metric("process_resident_memory_bytes") / (1 << 20), 400, 800);
  AtLeast("the 2 s after it, over capacity",
          ClosedLoop(address(), request_, 2, 2).goodput() / capacity, 0.9, 0.2);
}

TEST_F(LoadProof, Prediction) {
  Start(R"(workers: 1
encodings:
  - {name: rope, time_unit: position, blocks: [{rotary: {pair_layout: half_split}}]}
  - {name: alibi, time_unit: position, two_sided: absolute_lag, biases: [{alibi: {}}]}
)");
  std::mt19937 random(7);
  std::vector<double> ratios;
  const auto pick = [&](std::vector<int64_t> values) {
    return values[random() % values.size()];
  };
  const int warm_up = 40, counted = full() ? 400 : 60;
  for (int i = 0; i < warm_up + counted; ++i) {
    const int64_t dim = pick({16, 32, 64, 128});
    v1::AttendRequest request =
        MakeRequest({.query_heads = pick({1, 2, 4}),
                     .queries = pick({64, 256, 512, 1024}),
                     .keys = pick({64, 256, 1024, 2048}),
                     .dim = dim,
                     .value_dim = dim});
    const int64_t which = pick({0, 1, 2});
    if (which > 0) request.set_encoding(which == 1 ? "rope" : "alibi");
    if (pick({0, 1}) == 1) {
      request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
    }
    const auto result = client_->Attend(request);
    ASSERT_TRUE(result.ok()) << result.message;
    if (i < warm_up) continue;
    ratios.push_back(result.reply.stats().predicted_seconds() /
                     result.reply.stats().compute_seconds());
  }
  std::sort(ratios.begin(), ratios.end());
  const auto inside = std::count_if(ratios.begin(), ratios.end(), [](double r) {
    return r > 0.7 && r < 1.4;
  });
  Show("predicted over measured, p2.5", Quantile(ratios, 0.025));
  Show("predicted over measured, median", Quantile(ratios, 0.5));
  Show("predicted over measured, p97.5", Quantile(ratios, 0.975));
  AtLeast("share within 0.7 to 1.4",
          static_cast<double>(inside) / static_cast<double>(ratios.size()),
          0.95, 0);
}

// Waiting plus work of a queue with one server, Poisson arrivals and work of
// one second, at 70 % load: the quantile by simulation.
double DeterministicQueueP99() {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> gap(0.7);
  std::vector<double> times(1'000'000);
  double wait = 0;
  for (double& time : times) {
    time = wait + 1;
    wait = std::max(0.0, wait + 1 - gap(random));
  }
  std::sort(times.begin(), times.end());
  return Quantile(times, 0.99);
}

TEST_F(LoadProof, PoissonLoadOfSeventyPercent) {
  Start("workers: 1\n");
  const double work =
      1 / ClosedLoop(address(), request_, 1, seconds(5, 2)).goodput();
  const auto outcomes = Offer(address(), {.request = request_,
                                          .per_second = 0.7 / work,
                                          .seconds = 2 * seconds()});
  const double p99 = Quantile(outcomes.answers, 0.99);
  Show("one call alone, ms", 1e3 * work);
  Show("p99 at 70 %, ms", 1e3 * p99);
  AtMost("p99 over that of M/D/1", p99 / (DeterministicQueueP99() * work), 1.5,
         20);
  EXPECT_EQ(outcomes.codes.size(), 1u) << "all are OK";
}

TEST_F(LoadProof, SmallRequestsBesideALargeOne) {
  Start("workers: 1\n");
  const v1::AttendRequest large = MakeRequest({.query_heads = 8,
                                               .queries = 16384,
                                               .keys = 16384,
                                               .dim = 16,
                                               .value_dim = 16});
  std::atomic<bool> stop{false};
  auto other = std::async(std::launch::async, [&] {
    TestClient client(address());
    int done = 0;
    while (!stop) done += client.Attend(large).ok();
    return done;
  });
  EXPECT_TRUE(EventuallyMetric("attnd_requests_running", 1));
  const auto outcomes = Offer(address(), {.request = small_,
                                          .per_second = 20,
                                          .seconds = seconds(),
                                          .deadline_seconds = 5});
  stop = true;
  Show("1 ms requests beside L16384 H8, p50, ms",
       1e3 * Quantile(outcomes.answers, 0.5));
  AtMost("p99, ms", 1e3 * Quantile(outcomes.answers, 0.99), 15, 2000);
  EXPECT_EQ(outcomes.codes.size(), 1u) << "all are OK";
  EXPECT_GT(other.get(), 0) << "and the large one is answered";
}

TEST_F(LoadProof, AModestTenantBesideAGreedyOne) {
  Start("workers: 1\ntenants: {tenants: [{name: greedy}, {name: modest}]}\n");
  const double capacity =
      ClosedLoop(address(), request_, 2, seconds(10, 2)).goodput();
  // Three fifths of its share, which is half.
  const OfferedLoad modest = {.request = request_,
                              .per_second = 0.3 * capacity,
                              .seconds = std::max(3.0, seconds()),
                              .deadline_seconds = Deadline(2, 40, capacity),
                              .metadata = {{"x-attnd-tenant", "modest"}},
                              .seed = 2};
  const auto alone = Offer(address(), modest);
  auto greedy = std::async(std::launch::async, [&] {
    return Offer(address(), {.request = request_,
                             .per_second = 5 * capacity,
                             .seconds = std::max(3.0, seconds()),
                             .deadline_seconds = Deadline(0.5, 10, capacity),
                             .metadata = {{"x-attnd-tenant", "greedy"}},
                             .seed = 3});
  });
  const auto beside = Offer(address(), modest);
  const auto other = greedy.get();
  AtLeast("modest: throughput over alone",
          static_cast<double>(beside.ok()) / alone.ok(), 0.9, 0.3);
  AtMost("modest: p99 over alone",
         Quantile(beside.answers, 0.99) / Quantile(alone.answers, 0.99), 2, 50);
  Show("greedy: share of the capacity", other.goodput() / capacity);
  EXPECT_GT(other.ok(), 0);
}

TEST_F(LoadProof, CancelledAndExpiredWork) {
  Start("workers: 1\nlimits: {request_worker_seconds: 1000}\n");
  // 10 s or more.
  v1::AttendRequest large = MakeRequest({.query_heads = 128,
                                         .queries = 16384,
                                         .keys = 16384,
                                         .dim = 4,
                                         .value_dim = 4});
  // Between its units nothing else gets the worker.
  large.set_priority(1);
  double slowest = 0;
  for (int i = 0; i < (full() ? 10 : 2); ++i) {
    auto call = client_->StartAttend(large);
    // A worker makes its plan first; the small ones of a round have theirs too.
    ASSERT_TRUE(EventuallyMetric("attnd_stage_seconds_count{stage=\"plan\"}",
                                 11 * i + 1));
    ASSERT_TRUE(EventuallyMetric("attnd_workers_busy", 1));
    // What waits behind it and is given up must cost nothing.
    std::vector<std::unique_ptr<AttendHandle>> doomed;
    for (int j = 0; j < 10; ++j) {
      doomed.push_back(client_->StartAttend(small_, 290));
    }
    ASSERT_TRUE(EventuallyMetric("attnd_requests_waiting", 10));
    for (auto& each : doomed) each->Cancel();
    ASSERT_TRUE(EventuallyMetric("attnd_requests_waiting", 0));
    const auto start = std::chrono::steady_clock::now();
    call->Cancel();
    EXPECT_TRUE(EventuallyMetric("attnd_workers_busy", 0));
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    slowest = std::max(slowest, took.count());
    EXPECT_EQ(call->Wait().code, kCancelled);
  }
  AtMost("cancelled 10 s request frees its worker, slowest, ms", 1e3 * slowest,
         200, 2000);
  const double computed =
      Metric("attnd_stage_seconds_count{stage=\"compute\"}");
  EXPECT_EQ(computed, Metric("attnd_cancelled_total{stage=\"compute\"}"))
      << "a request was computed after its caller had left the queue";
  AtMost("computed of the requests cancelled in the queue",
         computed - Metric("attnd_cancelled_total{stage=\"compute\"}"), 0, 0);
}

// Mixed sizes at about 70 % load: memory stays where it was after a tenth of
// the time, and the last tenth is served as the first.
TEST_F(LoadProof, Soak) {
  Start("workers: 1\n");
  const double capacity =
      ClosedLoop(address(), request_, 2, seconds(5, 1)).goodput();
  const auto part = [&](double length, uint64_t seed) {
    auto small = std::async(std::launch::async, [&] {
      return Offer(address(), {.request = small_,
                               .per_second = 2 * capacity,
                               .seconds = length,
                               .seed = seed});
    });
    const auto large = Offer(address(), {.request = request_,
                                         .per_second = 0.5 * capacity,
                                         .seconds = length,
                                         .seed = seed + 1});
    EXPECT_EQ(large.codes.size(), 1u);
    EXPECT_EQ(small.get().codes.size(), 1u);
    return Quantile(large.answers, 0.99);
  };
  const double length = seconds(seconds(), 5);
  part(0.1 * length, 1);
  const double first = part(0.1 * length, 3);
  const double resident = Metric("process_resident_memory_bytes");
  part(0.7 * length, 5);
  const double last = part(0.1 * length, 7);
  Show("resident after warm-up, MiB", resident / (1 << 20));
  AtMost("growth of resident memory",
         Metric("process_resident_memory_bytes") / resident - 1, 0.05, 0.5);
  AtMost("p99, last tenth over second", last / first, 1.5, 50);
}

}  // namespace
}  // namespace attnd::testing
