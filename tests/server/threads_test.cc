// What many threads share, driven by many threads: for ThreadSanitizer, and for
// sums that must come out even.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/admission.h"
#include "server/config.h"
#include "server/cost_predictor.h"
#include "server/executor.h"
#include "server/service_context.h"
#include "server/settings.h"
#include "server/stream_flow.h"

namespace attnd::server {
namespace {

constexpr int kThreads = 4;

// Calls `work` with 0, 1, ... on as many threads.
void OnThreads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(AdmissionThreads, GiveBackEverything) {
  const auto admission = std::make_shared<Admission>(
      AdmissionLimits{.workers = 2, .bytes = 1000, .waiting_requests = 50});
  std::atomic<int> admitted{0};
  OnThreads([&](int thread) {
    const Tenant tenant = {.id = thread % 2, .name = "t", .share = 0.5};
    const Instant now = std::chrono::steady_clock::now();
    for (int i = 0; i < 2000; ++i) {
      auto ticket = admission->Reserve(1 + i % 100, tenant);
      if (!ticket.ok()) continue;
      const absl::Status status = admission->Admit(
          *ticket,
          {.seconds = 0.01 * (i % 7), .deadline = now + FromSeconds(1000)},
          now);
      if (!status.ok()) continue;
      ++admitted;
      if (i % 3 != 0) ticket->Started();
      if (i % 3 == 1) ticket->Spend(0.001);
      if (i % 5 == 0) ticket->KeepBytes(1);
      if (i % 500 == 0) admission->SetLimits(admission->limits());
      (void)admission->PredictWait(now, tenant);
      const Admission::Ticket elsewhere = *std::move(ticket);
    }
  });
  EXPECT_GT(admitted, 0);
  const AdmissionLoad load = admission->load();
  EXPECT_EQ(load.bytes, 0);
  EXPECT_EQ(load.waiting_requests, 0);
  EXPECT_EQ(load.waiting_seconds, 0);
  EXPECT_EQ(load.remaining_seconds, 0);
  admission->Close();
  EXPECT_FALSE(admission->Reserve(1).ok());
}

// Jobs of one unit from many threads, half of which run on their callers; never
// more at a time than there are workers.
TEST(ExecutorThreads, CallersTakeThePlaceOfWorkers) {
  static constexpr int kWorkers = 2, kJobs = 1000;
  struct Counts {
    std::atomic<int> running{0}, runs{0}, dones{0}, cancelled{0};
  } counts;
  struct SmallJob : Job {
    explicit SmallJob(Counts& c) : counts(c) {}
    absl::Status Run(int64_t, Workspace*, const std::atomic<bool>&) override {
      EXPECT_LE(++counts.running, kWorkers);
      ++counts.runs;
      --counts.running;
      return absl::OkStatus();
    }
    void Done(const JobResult& result) override {
      counts.cancelled += !result.status.ok();
      ++counts.dones;
    }
    Counts& counts;
  };
  auto executor = *Executor::Create(
      {.workers = kWorkers, .small_seconds = 50e-6, .time = nullptr});
  std::vector<std::unique_ptr<SmallJob>> jobs[kThreads];
  OnThreads([&](int thread) {
    for (int i = 0; i < kJobs; ++i) {
      SmallJob& job =
          *jobs[thread].emplace_back(std::make_unique<SmallJob>(counts));
      executor->Submit(
          job, 1, std::chrono::steady_clock::now() + FromSeconds(1000),
          {.tenant = thread % 2, .seconds_per_unit = 10e-6 * (i % 10)},
          i % 2 == 0 ? RunOn::kCallerIfSmall : RunOn::kWorkers);
      if (i % 7 == 0) executor->Cancel(job);
    }
  });
  EXPECT_TRUE(
      executor->WaitIdle(std::chrono::steady_clock::now() + FromSeconds(60)));
  executor->Stop();
  EXPECT_EQ(counts.dones, kThreads * kJobs);
  EXPECT_LE(counts.runs, kThreads * kJobs);
  EXPECT_GE(counts.runs + counts.cancelled, kThreads * kJobs);
  EXPECT_EQ(executor->load().busy_workers, 0);
}

TEST(ReloadThreads, WhoBeganKeepsItsSettings) {
  const auto config = [](int queue_requests) {
    return *ParseConfig(
        absl::StrCat("limits: {queue_requests: ", queue_requests, "}"),
        "a.yaml", ReadMachine());
  };
  CurrentSettings current(*Settings::Make(config(1)));
  OnThreads([&](int thread) {
    int64_t last = 0;
    for (int i = 0; i < 200; ++i) {
      if (thread == 0) {
        // One thread reloads, as Server::Reload sees to.
        const auto before = current.Get();
        current.Set(*Settings::Make(
            config(static_cast<int>(before->generation) + 1), before.get()));
        continue;
      }
      const auto settings = current.Get();
      EXPECT_EQ(settings->limits().queue_requests(), settings->generation);
      EXPECT_GE(settings->generation, last);
      last = settings->generation;
    }
  });
  EXPECT_EQ(current.Get()->generation, 201);
}

// A stream whose caller has said all: it ends when it is drained or begun.
class SilentWire : public StreamFlow::Wire {
 public:
  void Read() override { ++reads; }
  void Write(ReplyPieces) override {}
  void End(StreamEnd) override { ++ends; }
  std::atomic<int> reads{0}, ends{0};
};

TEST(DrainThreads, EveryStreamAndEveryCallComesToItsEnd) {
  StreamRegistry registry;
  CallCount calls;
  std::atomic<int> ended{0};
  OnThreads([&](int thread) {
    for (int i = 0; i < 500; ++i) {
      calls.Enter();
      SilentWire wire;
      const auto flow = std::make_shared<StreamFlow>(wire, 2);
      registry.Enter(flow);
      flow->Begin();
      if (thread == 0 && i == 250) registry.Drain();
      // The caller closes; a drained flow may have ended before.
      if (wire.reads > 0) flow->ReadEnded();
      while (wire.ends == 0) std::this_thread::yield();
      registry.Leave(flow);
      ended += wire.ends;
      calls.Leave();
    }
  });
  EXPECT_EQ(ended, kThreads * 500);
  EXPECT_EQ(registry.size(), 0);
  EXPECT_TRUE(calls.WaitForZero(std::chrono::steady_clock::now()));
}

TEST(PredictorThreads, FactorsStayWithinTheirBounds) {
  CostPredictor costs(CostModel({.seconds_per_unit = 1e-3}));
  const Work work = {.units = 1};
  OnThreads([&](int thread) {
    const std::string encoding = absl::StrCat("e", thread % 2);
    const Instant now = std::chrono::steady_clock::now();
    for (int i = 0; i < 2000; ++i) {
      costs.Observe(work, encoding, 1e-3 * (1 + thread), now);
      EXPECT_GT(costs.Predict(work, encoding, now), 0);
    }
    EXPECT_LE(costs.factors().size(), 2u);
  });
}

}  // namespace
}  // namespace attnd::server
