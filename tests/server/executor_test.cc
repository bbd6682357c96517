#include "server/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/fake_time.h"

namespace attnd::server {
namespace {

using ::attnd::testing::FakeTime;

constexpr std::chrono::seconds kPatience(30);

// A door that a job waits at until a test opens it.
class Gate {
 public:
  void Open() { promise_.set_value(); }
  void Wait() { future_.wait(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

class TestJob : public Job {
 public:
  using Unit =
      std::function<absl::Status(int64_t unit, const std::atomic<bool>& stop)>;
  explicit TestJob(Unit unit) : unit_(std::move(unit)) {}

  JobResult Wait() {
    if (done_.wait_for(kPatience) != std::future_status::ready) {
      ADD_FAILURE() << "the job never ended";
      return {};
    }
    return done_.get();
  }
  bool ended() const {
    return done_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  int starts() const { return starts_; }
  int dones() const { return dones_; }

 protected:
  absl::Status Start() override {
    ++starts_;
    return absl::OkStatus();
  }
  absl::Status Run(int64_t unit, Workspace*,
                   const std::atomic<bool>& stop) override {
    return unit_(unit, stop);
  }
  void Done(const JobResult& result) override {
    ++dones_;
    result_.set_value(result);
  }

 private:
  const Unit unit_;
  std::atomic<int> starts_{0}, dones_{0};
  std::promise<JobResult> result_;
  std::future<JobResult> done_ = result_.get_future();
};

absl::Status Nothing(int64_t, const std::atomic<bool>&) {
  return absl::OkStatus();
}

class ExecutorTest : public ::testing::Test {
 protected:
  void Make(int workers, double small_seconds = 0) {
    executor_ = *Executor::Create(
        {.workers = workers, .small_seconds = small_seconds, .time = &time_});
  }
  Instant In(double seconds) const {
    return time_.Now() + FromSeconds(seconds);
  }
  // Occupies one worker until the gate opens.
  std::unique_ptr<TestJob> Occupy(Gate& gate, double deadline = 1e6) {
    auto running = std::make_shared<std::promise<void>>();
    auto job = std::make_unique<TestJob>(
        [&gate, running](int64_t, const std::atomic<bool>&) {
          running->set_value();
          gate.Wait();
          return absl::OkStatus();
        });
    executor_->Submit(*job, 1, In(deadline));
    running->get_future().wait();
    return job;
  }

  FakeTime time_;
  std::unique_ptr<Executor> executor_;
};

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

TEST_F(ExecutorTest, ServesTheEarliestDeadlineFirst) {
  Make(1);
  Gate gate;
  const auto blocker = Occupy(gate);
  std::vector<int> order;
  const auto note = [&order](int number) {
    return [&order, number](int64_t, const std::atomic<bool>&) {
      order.push_back(number);  // one worker: no lock needed
      return absl::OkStatus();
    };
  };
  TestJob late(note(3)), early(note(1)), middle(note(2)), equal(note(4));
  executor_->Submit(late, 1, In(30));
  executor_->Submit(early, 1, In(10));
  executor_->Submit(middle, 1, In(20));
  executor_->Submit(equal, 1, In(30));
  gate.Open();
  for (TestJob* job : {&late, &early, &middle, &equal}) job->Wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

TEST_F(ExecutorTest, WithinATenantPrioritiesComeFirst) {
  Make(1);
  Gate gate;
  const auto blocker = Occupy(gate);
  std::vector<int> order;
  const auto note = [&order](int number) {
    return [&order, number](int64_t, const std::atomic<bool>&) {
      order.push_back(number);
      return absl::OkStatus();
    };
  };
  TestJob low(note(3)), normal(note(2)), high(note(1));
  executor_->Submit(low, 1, In(1), {.priority = -1});
  executor_->Submit(normal, 1, In(20));
  executor_->Submit(high, 1, In(30), {.priority = 5});
  gate.Open();
  for (TestJob* job : {&low, &normal, &high}) job->Wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

// Units of 10 ms each, all waiting from the start.
TEST_F(ExecutorTest, TenantsShareByWeight) {
  Make(1);
  Gate gate;
  const auto blocker = Occupy(gate);
  int units[3] = {};
  std::vector<std::unique_ptr<TestJob>> jobs;
  for (int tenant = 1; tenant <= 2; ++tenant) {
    jobs.push_back(std::make_unique<TestJob>(
        [&, tenant](int64_t, const std::atomic<bool>&) {
          time_.Advance(0.01);
          ++units[tenant];
          // Both have work until one has done 60 units.
          if (units[1] + units[2] == 80) {
            EXPECT_NEAR(units[1], 60, 12);
          }
          return absl::OkStatus();
        }));
    executor_->Submit(*jobs.back(), 100, In(1e6),
                      {.tenant = tenant,
                       .weight = tenant == 1 ? 3.0 : 1.0,
                       .seconds_per_unit = 0.01});
  }
  gate.Open();
  for (auto& job : jobs) EXPECT_TRUE(job->Wait().status.ok());
}

// One tenant has very much to do; who comes now and then is served at once.
TEST_F(ExecutorTest, AModestTenantDoesNotQueueBehindAGreedyOne) {
  Make(1);
  std::atomic<int> greedy_units{0};
  std::atomic<int> seen{-1};
  TestJob modest([&](int64_t, const std::atomic<bool>&) {
    seen = greedy_units.load();
    return absl::OkStatus();
  });
  TestJob greedy([&](int64_t unit, const std::atomic<bool>&) {
    time_.Advance(0.01);
    ++greedy_units;
    if (unit == 50) {
      executor_->Submit(modest, 1, In(1e6),
                        {.tenant = 2, .seconds_per_unit = 0.01});
    }
    return absl::OkStatus();
  });
  executor_->Submit(greedy, 200, In(10),
                    {.tenant = 1, .seconds_per_unit = 0.01});
  EXPECT_TRUE(modest.Wait().status.ok());
  EXPECT_TRUE(greedy.Wait().status.ok());
  EXPECT_EQ(seen, 51);
}

TEST_F(ExecutorTest, AnUrgentJobOvertakesBetweenUnits) {
  Make(1);
  std::vector<int> order;
  Gate gate;
  std::promise<void> running;
  TestJob large([&](int64_t unit, const std::atomic<bool>&) {
    order.push_back(static_cast<int>(unit));
    if (unit == 0) {
      running.set_value();
      gate.Wait();
    }
    return absl::OkStatus();
  });
  TestJob urgent([&](int64_t, const std::atomic<bool>&) {
    order.push_back(-1);
    return absl::OkStatus();
  });
  executor_->Submit(large, 3, In(100));
  running.get_future().wait();
  executor_->Submit(urgent, 1, In(1));
  gate.Open();
  large.Wait();
  urgent.Wait();
  EXPECT_EQ(order, (std::vector<int>{0, -1, 1, 2}));
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

// Small jobs that their caller may run itself.
class SmallJobs : public ExecutorTest {
 protected:
  static constexpr double kSmall = 50e-6;

  // Where it ran.
  static TestJob::Unit Note(std::thread::id& thread) {
    return [&thread](int64_t, const std::atomic<bool>&) {
      thread = std::this_thread::get_id();
      return absl::OkStatus();
    };
  }
  void Submit(TestJob& job, int64_t units = 1, double seconds = kSmall) {
    executor_->Submit(job, units, In(100), {.seconds_per_unit = seconds},
                      RunOn::kCallerIfSmall);
  }
  // Whether it ran here, as a job of so many units of such a length.
  bool RanHere(int64_t units = 1, double seconds = kSmall) {
    std::thread::id thread;
    TestJob job(Note(thread));
    Submit(job, units, seconds);
    const JobResult result = job.Wait();
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_TRUE(result.started);
    EXPECT_EQ(job.starts(), 1);
    return thread == std::this_thread::get_id();
  }
};

TEST_F(SmallJobs, RunOnTheirCallerWhereAWorkerIsIdle) {
  Make(2, kSmall);
  EXPECT_TRUE(RanHere());
  EXPECT_FALSE(RanHere(1, 2 * kSmall)) << "longer";
  EXPECT_FALSE(RanHere(2)) << "several units";
  std::thread::id thread;
  TestJob other(Note(thread));
  executor_->Submit(other, 1, In(100), {.seconds_per_unit = kSmall});
  other.Wait();
  EXPECT_NE(thread, std::this_thread::get_id()) << "not allowed to";
  Gate gate;
  const auto blocker = Occupy(gate);
  EXPECT_TRUE(RanHere()) << "the other worker is idle";
  gate.Open();
  blocker->Wait();
}

TEST_F(SmallJobs, WaitTheirTurnWhereNoWorkerIsIdle) {
  Make(1, kSmall);
  Gate gate;
  const auto blocker = Occupy(gate);
  std::thread::id thread;
  TestJob job(Note(thread));
  Submit(job);
  EXPECT_FALSE(job.ended());
  EXPECT_EQ(executor_->load().waiting, 1);
  gate.Open();
  blocker->Wait();
  EXPECT_TRUE(job.Wait().status.ok());
  EXPECT_NE(thread, std::this_thread::get_id());
}

// A caller that runs a job takes the place of a worker until it is done.
TEST_F(SmallJobs, TakeThePlaceOfAWorker) {
  Make(1, kSmall);
  std::promise<void> running;
  Gate gate;
  TestJob small([&](int64_t, const std::atomic<bool>&) {
    running.set_value();
    gate.Wait();
    return absl::OkStatus();
  });
  std::thread caller([&] { Submit(small); });
  running.get_future().wait();
  ExecutorLoad load = executor_->load();
  EXPECT_EQ(load.running, 1);
  EXPECT_EQ(load.busy_workers, 1);
  std::thread::id thread;
  TestJob next(Note(thread));
  executor_->Submit(next, 1, In(100));
  EXPECT_EQ(executor_->load().waiting, 1);
  gate.Open();
  EXPECT_TRUE(next.Wait().status.ok()) << "a worker looks for it by itself";
  caller.join();
  EXPECT_NE(thread, caller.get_id());
  EXPECT_TRUE(small.Wait().status.ok());
  load = executor_->load();
  EXPECT_EQ(load.busy_workers, 0);
  EXPECT_EQ(load.running, 0);
}

TEST_F(SmallJobs, ObeyDeadlinesCancellationAndTheEndOfAll) {
  Make(1, kSmall);
  for (const char* how : {"deadline", "cancelled", "stopped"}) {
    std::promise<void> running;
    TestJob small([&](int64_t, const std::atomic<bool>& stop) {
      running.set_value();
      while (!stop) std::this_thread::yield();
      return absl::CancelledError("stopped");
    });
    std::thread caller([&] { Submit(small); });
    running.get_future().wait();
    absl::StatusCode expected = absl::StatusCode::kCancelled;
    if (how == std::string("deadline")) {
      time_.Advance(200);
      expected = absl::StatusCode::kDeadlineExceeded;
    } else if (how == std::string("cancelled")) {
      executor_->Cancel(small);
    } else {
      executor_->Stop();
      expected = absl::StatusCode::kUnavailable;
    }
    EXPECT_EQ(small.Wait().status.code(), expected) << how;
    EXPECT_EQ(small.dones(), 1);
    caller.join();
  }
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
