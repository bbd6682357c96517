// How jobs run and end: units, deadlines, cancellation, faults, the end of all.
#include "tests/server/executor_test.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace attnd::server {
namespace {

TEST_F(ExecutorTest, RunsEveryUnitOnce) {
  Make(3);
  std::vector<std::atomic<int>> runs(100);
  TestJob job([&](int64_t unit, const std::atomic<bool>&) {
    ++runs[unit];
    return absl::OkStatus();
  });
  executor_->Submit(job, 100, In(10));
  const JobResult result = job.Wait();
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_TRUE(result.started);
  EXPECT_EQ(job.starts(), 1);
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST_F(ExecutorTest, SeveralWorkersShareOneJob) {
  Make(2);
  // Each unit waits for the other: one worker alone would never end.
  std::promise<void> first, second;
  TestJob job([&](int64_t unit, const std::atomic<bool>&) {
    (unit == 0 ? first : second).set_value();
    (unit == 0 ? second : first).get_future().wait();
    return absl::OkStatus();
  });
  executor_->Submit(job, 2, In(10));
  EXPECT_TRUE(job.Wait().status.ok());
}

TEST_F(ExecutorTest, QueuedJobsExpireByTimerWhileTheWorkerIsBusy) {
  Make(1);
  Gate gate;
  const auto blocker = Occupy(gate);
  bool ran = false;
  TestJob job([&](int64_t, const std::atomic<bool>&) {
    ran = true;
    return absl::OkStatus();
  });
  executor_->Submit(job, 1, In(0.1));
  time_.Advance(0.05);
  EXPECT_FALSE(job.ended());
  time_.Advance(0.06);
  const JobResult result = job.Wait();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(result.started);
  EXPECT_NEAR(result.queue_seconds, 0.11, 1e-9);
  EXPECT_EQ(executor_->load().waiting, 0);
  gate.Open();
  EXPECT_TRUE(blocker->Wait().status.ok());
  EXPECT_FALSE(ran);
}

TEST_F(ExecutorTest, ADeadlineStopsARunningUnit) {
  Make(1);
  std::promise<void> running;
  TestJob job([&](int64_t unit, const std::atomic<bool>& stop) {
    if (unit == 0) running.set_value();
    while (!stop) std::this_thread::yield();
    return absl::CancelledError("stopped");
  });
  executor_->Submit(job, 5, In(1));
  running.get_future().wait();
  time_.Advance(2);
  const JobResult result = job.Wait();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(result.started);
}

TEST_F(ExecutorTest, CancelledJobsInTheQueueCostNoWork) {
  Make(1);
  Gate gate;
  const auto blocker = Occupy(gate);
  std::vector<std::unique_ptr<TestJob>> jobs;
  std::atomic<int> ran{0};
  for (int i = 0; i < 20; ++i) {
    jobs.push_back(
        std::make_unique<TestJob>([&](int64_t, const std::atomic<bool>&) {
          ++ran;
          return absl::OkStatus();
        }));
    executor_->Submit(*jobs.back(), 4, In(100));
  }
  EXPECT_EQ(executor_->load().waiting, 20);
  for (auto& job : jobs) executor_->Cancel(*job);
  for (auto& job : jobs) {
    EXPECT_EQ(job->Wait().status.code(), absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(executor_->load().waiting, 0);
  gate.Open();
  blocker->Wait();
  EXPECT_EQ(ran, 0);
}

TEST_F(ExecutorTest, CancellingARunningJobSkipsItsOtherUnits) {
  Make(1);
  std::promise<void> running;
  std::atomic<int> ran{0};
  TestJob job([&](int64_t, const std::atomic<bool>& stop) {
    if (++ran == 1) running.set_value();
    while (!stop) std::this_thread::yield();
    return absl::CancelledError("stopped");
  });
  executor_->Submit(job, 100, In(100));
  running.get_future().wait();
  executor_->Cancel(job);
  EXPECT_EQ(job.Wait().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ran, 1);
  EXPECT_TRUE(executor_->WaitIdle(In(1)));
}

// Whoever ends many jobs may end the one that runs first; its worker, free
// then, takes none of the others, however long the end of one of them lasts.
class EndedTogetherTest : public ExecutorTest {
 protected:
  // Calls `end` with one job running and others waiting, which are due in a
  // second.
  void Run(const std::function<void(absl::Span<Job* const>)>& end,
           absl::StatusCode expected) {
    Make(1);
    std::promise<void> running;
    TestJob first([&](int64_t, const std::atomic<bool>& stop) {
      running.set_value();
      while (!stop) std::this_thread::yield();
      return absl::CancelledError("stopped");
    });
    executor_->Submit(first, 1, In(1));
    running.get_future().wait();
    struct Waiting : TestJob {
      Waiting(Unit unit, Executor& executor)
          : TestJob(std::move(unit)), executor(executor) {}
      // Lasts until the worker has found nothing of the others to do.
      void Done(const JobResult& result) override {
        TestJob last(Nothing);
        executor.Submit(last, 1, Instant::max());
        last.Wait();
        TestJob::Done(result);
      }
      Executor& executor;
    };
    std::atomic<int> ran{0};
    std::vector<std::unique_ptr<Waiting>> waiting;
    std::vector<Job*> jobs = {&first};
    for (int i = 0; i < 3; ++i) {
      waiting.push_back(std::make_unique<Waiting>(
          [&](int64_t, const std::atomic<bool>&) {
            ++ran;
            return absl::OkStatus();
          },
          *executor_));
      executor_->Submit(*waiting.back(), 1, In(1));
      jobs.push_back(waiting.back().get());
    }
    end(jobs);
    for (const auto& job : waiting) {
      const JobResult result = job->Wait();
      EXPECT_EQ(result.status.code(), expected);
      EXPECT_FALSE(result.started);
    }
    EXPECT_EQ(ran, 0);
  }
};

TEST_F(EndedTogetherTest, ByTheirCaller) {
  Run([&](absl::Span<Job* const> jobs) { executor_->Cancel(jobs); },
      absl::StatusCode::kCancelled);
}

TEST_F(EndedTogetherTest, ByTheirDeadline) {
  Run([&](absl::Span<Job* const>) { time_.Advance(1); },
      absl::StatusCode::kDeadlineExceeded);
}

TEST_F(EndedTogetherTest, ByTheEndOfAll) {
  Run([&](absl::Span<Job* const>) { executor_->Stop(); },
      absl::StatusCode::kUnavailable);
}

TEST_F(ExecutorTest, CancellingBeforeSubmitEndsTheJobAtOnce) {
  Make(1);
  TestJob job(Nothing);
  executor_->Cancel(job);
  EXPECT_FALSE(job.ended());
  executor_->Submit(job, 1, In(1));
  EXPECT_TRUE(job.ended());
  EXPECT_EQ(job.Wait().status.code(), absl::StatusCode::kCancelled);
  executor_->Cancel(job);  // no effect
  EXPECT_EQ(job.dones(), 1);
}

TEST_F(ExecutorTest, ExceptionsEndTheJobAndNothingElse) {
  Make(1);
  TestJob thrower([](int64_t, const std::atomic<bool>&) -> absl::Status {
    throw std::runtime_error("boom");
  });
  executor_->Submit(thrower, 3, In(1));
  const JobResult result = thrower.Wait();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(result.status.message().find("boom"), std::string::npos);

  TestJob hungry([](int64_t, const std::atomic<bool>&) -> absl::Status {
    throw std::bad_alloc();
  });
  executor_->Submit(hungry, 1, In(1));
  EXPECT_EQ(hungry.Wait().status.code(), absl::StatusCode::kResourceExhausted);

  TestJob good(Nothing);
  executor_->Submit(good, 1, In(1));
  EXPECT_TRUE(good.Wait().status.ok());
}

TEST_F(ExecutorTest, GaugesFollowEveryPath) {
  Make(1);
  Gate gate;
  const auto blocker = Occupy(gate);
  std::vector<std::unique_ptr<TestJob>> jobs;
  for (int i = 0; i < 9; ++i) {
    jobs.push_back(std::make_unique<TestJob>(Nothing));
    executor_->Submit(*jobs.back(), 1, In(i < 2 ? 1 : 100));
  }
  ExecutorLoad load = executor_->load();
  EXPECT_EQ(load.running, 1);
  EXPECT_EQ(load.waiting, 9);
  EXPECT_EQ(load.busy_workers, 1);
  time_.Advance(3);  // two expire
  jobs[0]->Wait();
  jobs[1]->Wait();
  for (int i = 2; i < 5; ++i) executor_->Cancel(*jobs[i]);
  load = executor_->load();
  EXPECT_EQ(load.running, 1);
  EXPECT_EQ(load.waiting, 4);
  EXPECT_NEAR(load.busy_seconds, 3, 1e-9);
  gate.Open();
  for (int i = 2; i < 9; ++i) jobs[i]->Wait();
  EXPECT_TRUE(executor_->WaitIdle(In(1)));
  load = executor_->load();
  EXPECT_EQ(load.running, 0);
  EXPECT_EQ(load.waiting, 0);
}

TEST_F(ExecutorTest, WaitIdleGivesUpInTime) {
  Make(1);
  Gate gate;
  const auto blocker = Occupy(gate);
  auto waited = std::async(std::launch::async,
                           [&] { return executor_->WaitIdle(In(1)); });
  while (waited.wait_for(std::chrono::milliseconds(1)) !=
         std::future_status::ready) {
    time_.Advance(1);
  }
  EXPECT_FALSE(waited.get());
  gate.Open();
  blocker->Wait();
}

TEST_F(ExecutorTest, StopEndsWhatWaitsAndRefusesTheRest) {
  Make(1);
  std::promise<void> running;
  TestJob runs([&](int64_t, const std::atomic<bool>& stop) {
    running.set_value();
    while (!stop) std::this_thread::yield();
    return absl::CancelledError("stopped");
  });
  TestJob waits(Nothing), late(Nothing);
  executor_->Submit(runs, 1, In(100));
  running.get_future().wait();
  executor_->Submit(waits, 1, In(100));
  executor_->Stop();
  executor_->Submit(late, 1, In(100));
  for (TestJob* job : {&runs, &waits, &late}) {
    EXPECT_EQ(job->Wait().status.code(), absl::StatusCode::kUnavailable);
  }
}

TEST_F(ExecutorTest, AWorkspaceThatCannotBeMadeFailsTheStart) {
  const auto executor = Executor::Create(
      {.workers = 2,
       .workspace = []() -> absl::StatusOr<std::unique_ptr<Workspace>> {
         return absl::InternalError("no oneDNN");
       }});
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kInternal);
}

// Many threads submit, cancel and expire at once; every job ends once.
TEST(ExecutorStress, EveryJobEndsExactlyOnce) {
  auto executor = *Executor::Create({.workers = 2});
  std::vector<std::unique_ptr<TestJob>> jobs;
  for (int i = 0; i < 2000; ++i) {
    jobs.push_back(std::make_unique<TestJob>(
        [](int64_t, const std::atomic<bool>&) { return absl::OkStatus(); }));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < jobs.size(); i += 4) {
        const auto deadline =
            std::chrono::steady_clock::now() +
            std::chrono::microseconds(i % 3 == 0 ? 50 : 1000000);
        executor->Submit(*jobs[i], 1 + i % 5, deadline);
        if (i % 7 == 0) executor->Cancel(*jobs[i]);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto& job : jobs) {
    job->Wait();
    EXPECT_EQ(job->dones(), 1);
  }
  const ExecutorLoad load = executor->load();
  EXPECT_EQ(load.waiting + load.running, 0);
}

}  // namespace
}  // namespace attnd::server
