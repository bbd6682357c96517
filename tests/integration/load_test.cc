// Queues, deadlines, cancellation, gauges and faults, with work that lasts as
// long as a test wants.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <new>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "tests/integration/service_test.h"
#include "tests/integration/slow_work.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kWaiting[] = "attnd_requests_waiting";
constexpr char kRunning[] = "attnd_requests_running";

class LoadTest : public ServiceTest {
 protected:
  void StartSlow(const std::string& yaml = "") {
    Start("workers: 1\n" + yaml, work_.Function());
  }
  void TearDown() override { work_.Release(1 << 20); }

  // One request occupies the only worker.
  std::unique_ptr<AttendHandle> Occupy() {
    auto handle = client_->StartAttend(small_);
    EXPECT_TRUE(EventuallyMetric(kRunning, 1));
    return handle;
  }

  SlowWork work_;
  const v1::AttendRequest small_ = MakeRequest({});  // one unit
};

// Work that goes on for callers who left.
TEST_F(LoadTest, ExpiredRequestsEndInTimeAndCostNothing) {
  StartSlow();
  auto first = Occupy();
  std::vector<std::unique_ptr<AttendHandle>> doomed;
  for (int i = 0; i < 20; ++i) {
    doomed.push_back(client_->StartAttend(small_, 0.1));
  }
  auto leaver = client_->StartAttend(small_);
  ASSERT_TRUE(Eventually([&] {
    return Metric("attnd_admitted_worker_seconds_total") > 0 &&
           Metric(kWaiting) >= 1;
  }));
  leaver->Cancel();
  for (auto& call : doomed) {
    EXPECT_EQ(call->Wait().code, kDeadlineExceeded);
    EXPECT_GE(call->Wait().seconds, 0.09);
    EXPECT_LT(call->Wait().seconds, 2);
  }
  EXPECT_EQ(leaver->Wait().code, kCancelled);
  EXPECT_TRUE(EventuallyMetric(kWaiting, 0));
  EXPECT_EQ(Metric(kRunning), 1);
  auto normal = client_->StartAttend(small_);
  work_.Release(2);
  EXPECT_TRUE(first->Wait().ok());
  EXPECT_TRUE(normal->Wait().ok());
  EXPECT_EQ(work_.started(), 2) << "work was done for callers who had left";
  EXPECT_TRUE(EventuallyMetric(kRunning, 0));
  // A client's own deadline and the server's timer race, and a caller may leave
  // before its message has arrived; each that came is counted as one or the
  // other, and nothing as OK.
  const double queued = Metric("attnd_stage_seconds_count{stage=\"queue\"}");
  EXPECT_GT(queued, 2);
  EXPECT_LE(queued, 23);
  EXPECT_EQ(Metric("attnd_expired_in_queue_total") +
                Metric("attnd_cancelled_total{stage=\"queue\"}"),
            queued - 2);
}

// The same of one that runs.
TEST_F(LoadTest, CancellingARunningRequestFreesItsWorker) {
  StartSlow();
  auto running = Occupy();
  const auto start = std::chrono::steady_clock::now();
  running->Cancel();
  EXPECT_TRUE(EventuallyMetric(kRunning, 0));
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(500));
  EXPECT_EQ(running->Wait().code, kCancelled);
  EXPECT_EQ(work_.stopped(), 1);
  EXPECT_EQ(Metric("attnd_cancelled_total{stage=\"compute\"}"), 1);
  work_.Release(1);
  EXPECT_TRUE(client_->Attend(small_).ok());
}

// With the kernels themselves: stopped between tiles.
TEST_F(LoadTest, CancellationReachesTheKernels) {
  Start("workers: 1\nlimits: {request_worker_seconds: 1000}\n");
  auto large = client_->StartAttend(MakeRequest({.query_heads = 64,
                                                 .queries = 16384,
                                                 .keys = 16384,
                                                 .dim = 16,
                                                 .value_dim = 16}));
  ASSERT_TRUE(EventuallyMetric(kRunning, 1));
  const auto start = std::chrono::steady_clock::now();
  large->Cancel();
  EXPECT_TRUE(EventuallyMetric("attnd_workers_busy", 0));
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(500));
  EXPECT_EQ(large->Wait().code, kCancelled);
}

TEST_F(LoadTest, DeadlinesStopRunningWork) {
  StartSlow();
  const auto result = client_->Attend(small_, 0.1);
  EXPECT_EQ(result.code, kDeadlineExceeded);
  EXPECT_TRUE(EventuallyMetric(kRunning, 0));
  EXPECT_EQ(work_.stopped(), 1);
}

// A queue that is seen only when it is over.
TEST_F(LoadTest, GaugesAndWaitingTimesTellTheWholeStory) {
  StartSlow();
  std::vector<std::unique_ptr<AttendHandle>> calls;
  for (int i = 0; i < 10; ++i) calls.push_back(client_->StartAttend(small_));
  EXPECT_TRUE(EventuallyMetric(kWaiting, 9));
  EXPECT_EQ(Metric(kRunning), 1);
  EXPECT_EQ(Metric("attnd_inflight_requests"), 10);
  for (int done = 1; done <= 5; ++done) {
    work_.Release(1);
    EXPECT_TRUE(EventuallyMetric(kWaiting, 9 - done));
    EXPECT_TRUE(EventuallyMetric(kRunning, 1));
  }
  work_.Release(5);
  for (auto& call : calls) EXPECT_TRUE(call->Wait().ok());
  EXPECT_TRUE(EventuallyMetric(kRunning, 0));
  EXPECT_EQ(Metric(kWaiting), 0);
  EXPECT_EQ(Metric("attnd_queue_bytes"), 0);
  EXPECT_EQ(Metric("attnd_queue_cost_seconds"), 0);
  EXPECT_EQ(Metric("attnd_stage_seconds_count{stage=\"queue\"}"), 10);
  EXPECT_GT(Metric("attnd_stage_seconds_sum{stage=\"queue\"}"), 0);
}

// With three that leave and two that are refused.
TEST_F(LoadTest, WaitingTimesCountThoseWhoNeverRan) {
  StartSlow("limits: {queue_requests: 9}\n");
  auto running = Occupy();
  std::vector<std::unique_ptr<AttendHandle>> calls;
  for (int i = 0; i < 9; ++i) calls.push_back(client_->StartAttend(small_));
  ASSERT_TRUE(EventuallyMetric(kWaiting, 9));
  for (int i = 0; i < 2; ++i) {
    const auto refused = client_->Attend(small_);
    EXPECT_EQ(refused.code, kUnavailable);
    EXPECT_TRUE(refused.Retryable());
    EXPECT_EQ(refused.Reason(), "QUEUE_FULL");
    EXPECT_EQ(refused.trailers.count("grpc-retry-pushback-ms"), 1u);
    EXPECT_LT(refused.seconds, 0.1);
  }
  for (int i = 0; i < 3; ++i) calls[i]->Cancel();
  EXPECT_TRUE(EventuallyMetric(kWaiting, 6));
  EXPECT_EQ(Metric(kRunning), 1);
  work_.Release(7);
  for (int i = 3; i < 9; ++i) EXPECT_TRUE(calls[i]->Wait().ok());
  EXPECT_TRUE(EventuallyMetric(kRunning, 0));
  EXPECT_EQ(Metric(kWaiting), 0);
  EXPECT_EQ(Metric("attnd_stage_seconds_count{stage=\"queue\"}"), 10);
  EXPECT_EQ(Metric("attnd_cancelled_total{stage=\"queue\"}"), 3);
  EXPECT_EQ(Metric("attnd_rejected_total{reason=\"queue_full\"}"), 2);
}

TEST_F(LoadTest, TheQueueIsBoundedInWorkerSeconds) {
  StartSlow("limits: {queue_worker_seconds: 0.002}\n");
  auto running = Occupy();
  // A hundredth of a second or so each.
  const v1::AttendRequest heavy = MakeRequest({.query_heads = 4,
                                               .queries = 1500,
                                               .keys = 1500,
                                               .dim = 64,
                                               .value_dim = 64});
  auto waits = client_->StartAttend(heavy);
  ASSERT_TRUE(EventuallyMetric(kWaiting, 1));
  const auto refused = client_->Attend(heavy);
  EXPECT_EQ(refused.code, kUnavailable);
  EXPECT_TRUE(refused.Retryable());
  EXPECT_THAT(refused.message, HasSubstr("worker seconds"));
}

TEST_F(LoadTest, DemandCountsRefusalsButNotRetries) {
  StartSlow("limits: {queue_requests: 1}\n");
  const std::string offered =
      "attnd_offered_worker_seconds_total{tenant_class=\"default\"}";
  auto running = Occupy();
  const double one = Metric(offered);
  EXPECT_GT(one, 0);
  auto waits = client_->StartAttend(small_);
  ASSERT_TRUE(EventuallyMetric(kWaiting, 1));
  const double two = Metric(offered);
  EXPECT_NEAR(two, 2 * one, 1e-3 * one);
  EXPECT_EQ(client_->Attend(small_).code, kUnavailable);
  const double three = Metric(offered);
  EXPECT_GT(three, two);
  // What gRPC's libraries send, and what our client does.
  for (const char* key :
       {"grpc-previous-rpc-attempts", "x-attnd-previous-attempts"}) {
    EXPECT_EQ(client_->Attend(small_, kNoDeadline, {{key, "1"}}).code,
              kUnavailable);
    EXPECT_EQ(Metric(offered), three) << key;
  }
  EXPECT_LT(Metric("attnd_admitted_worker_seconds_total"), three);
}

// Compiling an encoding waits and counts like any other work.
TEST_F(LoadTest, EncodingsOfRequestsAreCompiledByWorkersAndKept) {
  StartSlow("inline_encodings: {allowed: true}\n");
  v1::AttendRequest request = small_;
  request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  v1::Encoding& encoding = *request.mutable_inline_encoding();
  encoding.set_time_unit("position");
  v1::Dense& dense = *encoding.add_blocks()->mutable_dense();
  dense.set_dim(4);
  for (int i = 0; i < 16; ++i) dense.add_matrix(i % 5 == 0 ? -0.1 : 0.01);
  auto running = Occupy();
  const double before = Metric("attnd_admitted_worker_seconds_total");
  auto first = client_->StartAttend(request);
  ASSERT_TRUE(EventuallyMetric(kWaiting, 1));
  EXPECT_EQ(Metric("attnd_encoders_cached"), 0) << "the only worker is busy";
  EXPECT_GT(Metric("attnd_admitted_worker_seconds_total"), before);
  EXPECT_GT(Metric("attnd_queue_cost_seconds"), 0);
  const auto expired = client_->Attend(request, 0.1);
  EXPECT_EQ(expired.code, kDeadlineExceeded);
  work_.Release(2);
  EXPECT_TRUE(running->Wait().ok());
  EXPECT_TRUE(first->Wait().ok()) << first->Wait().message;
  EXPECT_EQ(Metric("attnd_encoders_cached"), 1);
  work_.Release(1);
  const auto again = client_->Attend(request);
  ASSERT_TRUE(again.ok()) << again.message;
  EXPECT_EQ(again.reply.output().data(), first->Wait().reply.output().data());
  // It is in all figures.
  const v1::Stats& stats = first->Wait().reply.stats();
  const std::string& timing = first->Wait().trailers.at("server-timing");
  const double milliseconds = std::stod(timing.substr(timing.rfind('=') + 1));
  EXPECT_NEAR(1e3 * stats.compute_seconds(), milliseconds, 1e-3);
  EXPECT_GT(stats.predicted_seconds(), again.reply.stats().predicted_seconds());
  EXPECT_EQ(Metric("attnd_encoders_cached"), 1);
  // An estimate compiles as well; its rule makes it another encoder.
  v1::AttendRequest shapes = request;
  for (v1::Tensor* tensor :
       {shapes.mutable_query(), shapes.mutable_key(), shapes.mutable_value()}) {
    tensor->clear_data();
  }
  shapes.set_two_sided(v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
  const auto estimate = client_->Estimate(shapes);
  EXPECT_TRUE(estimate.ok()) << estimate.message;
  EXPECT_GT(estimate.reply.predicted_seconds(), 0);
  EXPECT_EQ(Metric("attnd_encoders_cached"), 2);
  EXPECT_TRUE(EventuallyMetric("attnd_queue_bytes", 0));
}

// What a few bytes ask for may take long: like all work it waits for a worker,
// and is charged.
TEST_F(LoadTest, LongPlansWaitForAWorker) {
  StartSlow();
  auto running = Occupy();
  const auto planned = [&] {
    return Metric("attnd_stage_seconds_count{stage=\"plan\"}");
  };
  const double plans = planned();
  v1::AttendRequest request =
      MakeRequest({.queries = 1, .keys = 200000, .dim = 1, .value_dim = 1});
  auto waiting = client_->StartAttend(request);
  ASSERT_TRUE(EventuallyMetric(kWaiting, 1));
  EXPECT_EQ(planned(), plans);
  EXPECT_GT(Metric("attnd_queue_cost_seconds"), 0);
  v1::AttendRequest shapes = request;
  for (v1::Tensor* tensor :
       {shapes.mutable_query(), shapes.mutable_key(), shapes.mutable_value()}) {
    tensor->clear_data();
  }
  const std::string offered =
      "attnd_offered_worker_seconds_total{tenant_class=\"default\"}";
  const double before = Metric(offered);
  auto estimate =
      std::async(std::launch::async, [&] { return client_->Estimate(shapes); });
  ASSERT_TRUE(EventuallyMetric(kWaiting, 2));
  EXPECT_GT(Metric(offered), before + 0.002);
  work_.Release(1 << 10);
  EXPECT_TRUE(running->Wait().ok());
  EXPECT_TRUE(waiting->Wait().ok()) << waiting->Wait().message;
  const auto estimated = estimate.get();
  EXPECT_TRUE(estimated.ok()) << estimated.message;
  EXPECT_GT(estimated.reply.predicted_seconds(), 0.002);
  EXPECT_GT(waiting->Wait().reply.stats().predicted_seconds(), 0.002);
}

TEST_F(LoadTest, HopelessDeadlinesAreRefusedBeforeComputing) {
  Start("workers: 1\n");
  // A message that arrives soon, with a second of work or more.
  const auto result = client_->Attend(MakeRequest({.query_heads = 16,
                                                   .queries = 16384,
                                                   .keys = 16384,
                                                   .dim = 4,
                                                   .value_dim = 4}),
                                      0.4);
  EXPECT_EQ(result.code, kDeadlineExceeded);
  EXPECT_EQ(Metric("attnd_worker_busy_seconds_total"), 0);
  EXPECT_TRUE(EventuallyMetric("attnd_rejected_total{reason=\"hopeless\"}", 1));
}

TEST_F(LoadTest, AnExceptionInAWorkerIsOneInternalError) {
  std::atomic<int> calls{0};
  Start("", [&](const Plan& plan, int64_t unit, Workspace& workspace,
                const OutputBuffers& out, const std::atomic<bool>* stop,
                UnitStats* stats) {
    switch (calls++) {
      case 0:
        throw std::runtime_error("test exception");
      case 1:
        throw std::bad_alloc();
      default:
        return RunUnit(plan, unit, workspace, out, stop, stats);
    }
  });
  const auto internal = client_->Attend(small_);
  EXPECT_EQ(internal.code, kInternal);
  EXPECT_THAT(internal.message, HasSubstr("test exception"));
  EXPECT_FALSE(internal.Retryable());
  EXPECT_EQ(client_->Attend(small_).code, kResourceExhausted);
  EXPECT_TRUE(client_->Attend(small_).ok());
  EXPECT_EQ(Metric("attnd_rejected_total{reason=\"internal\"}"), 1);
  EXPECT_EQ(Metric("attnd_rejected_total{reason=\"memory\"}"), 1);
  EXPECT_TRUE(EventuallyMetric(kRunning, 0));
  EXPECT_EQ(Metric("attnd_queue_bytes"), 0);
}

// Compiles at any sizes: work like any other.
TEST_F(LoadTest, EncodingsAreListedByAWorker) {
  StartSlow("limits: {queue_requests: 1}\n");
  EXPECT_TRUE(client_->ListEncodings().ok());
  auto running = Occupy();
  auto waits = client_->StartAttend(small_);
  ASSERT_TRUE(EventuallyMetric(kWaiting, 1));
  EXPECT_EQ(client_->ListEncodings().code, kUnavailable);
  work_.Release(2);
  EXPECT_TRUE(waits->Wait().ok());
  EXPECT_TRUE(client_->ListEncodings().ok());
}

TEST_F(LoadTest, OneInSoManyAnswersIsHeldToTheReference) {
  std::atomic<bool> wrong{false};
  Start("verification: {shadow_one_in: 2}\nworkers: 1\n",
        [&](const Plan& plan, int64_t unit, Workspace& workspace,
            const OutputBuffers& out, const std::atomic<bool>* stop,
            UnitStats* stats) {
          const auto status = RunUnit(plan, unit, workspace, out, stop, stats);
          if (wrong && !out.output.empty()) out.output[0] += 0.01f;
          return status;
        });
  const auto checks = [](const char* result) {
    return absl::StrCat("attnd_shadow_checks_total{result=\"", result, "\"}");
  };
  v1::AttendRequest request = MakeRequest(
      {.batch = 2, .query_heads = 4, .kv_heads = 2, .queries = 30, .keys = 40});
  // Rows first, as the answer then has them.
  const auto rows_first = [](v1::Tensor& tensor) {
    tensor.set_layout(v1::LAYOUT_BLHD);
    tensor.mutable_shape()->SwapElements(1, 2);
  };
  rows_first(*request.mutable_query());
  EXPECT_TRUE(client_->Attend(request).ok());
  EXPECT_TRUE(EventuallyMetric(checks("match"), 1));
  EXPECT_TRUE(client_->Attend(request).ok()) << "not picked";
  wrong = true;
  EXPECT_TRUE(client_->Attend(request).ok()) << "sent all the same";
  EXPECT_TRUE(EventuallyMetric(checks("mismatch"), 1));
  EXPECT_TRUE(client_->Attend(request).ok()) << "not picked";
  // The reference would take hours.
  EXPECT_TRUE(
      client_
          ->Attend(MakeRequest(
              {.queries = 4096, .keys = 4096, .dim = 8, .value_dim = 8}))
          .ok());
  EXPECT_EQ(Metric(checks("skipped")), 1);
  EXPECT_EQ(Metric(checks("match")), 1);
  EXPECT_EQ(Metric(checks("mismatch")), 1);
}

TEST_F(LoadTest, HealthAnswersUnderFullLoad) {
  StartSlow();
  std::vector<std::unique_ptr<AttendHandle>> calls;
  // 32 streams a connection: the rest waits at the client.
  for (int i = 0; i < 200; ++i) calls.push_back(client_->StartAttend(small_));
  ASSERT_TRUE(EventuallyMetric(kRunning, 1));
  TestClient other(server_->addresses()[0]);
  ASSERT_EQ(other.Health(""), 1);  // connects
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(other.Health(""), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(500));
  work_.Release(200);
  for (auto& call : calls) EXPECT_TRUE(call->Wait().ok());
}

TEST_F(LoadTest, ManyConcurrentCallersAllGetTheirOwnAnswer) {
  Start();
  std::vector<v1::AttendRequest> requests;
  std::vector<std::string> expected;
  for (int i = 0; i < 8; ++i) {
    requests.push_back(MakeRequest({.batch = 1 + i % 3,
                                    .query_heads = 2,
                                    .queries = 10 + 40 * i,
                                    .keys = 5 + 30 * i,
                                    .dim = 8 + i,
                                    .value_dim = 3 + i},
                                   i));
    requests.back().set_request_id(absl::StrCat("r", i));
    const auto alone = client_->Attend(requests.back());
    ASSERT_TRUE(alone.ok()) << alone.message;
    expected.push_back(alone.reply.output().data());
  }
  std::vector<std::unique_ptr<AttendHandle>> calls;
  for (int i = 0; i < 200; ++i) {
    calls.push_back(client_->StartAttend(requests[i % 8]));
  }
  for (int i = 0; i < 200; ++i) {
    const auto& result = calls[i]->Wait();
    ASSERT_TRUE(result.ok()) << result.message;
    EXPECT_EQ(result.reply.request_id(), absl::StrCat("r", i % 8));
    EXPECT_EQ(result.reply.output().data(), expected[i % 8])
        << "load changed the bytes of an answer";
  }
}

}  // namespace
}  // namespace attnd::testing
