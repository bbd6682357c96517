// Jobs that a caller of the executor runs on its own thread.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "tests/server/executor_test.h"

namespace attnd::server {
namespace {

// Small jobs that their caller may run itself.
class SmallJobs : public ExecutorTest {
 protected:
  static constexpr double kSmall = 50e-6;

  // Where it ran, or one of its units.
  static TestJob::Unit Note(std::atomic<std::thread::id>& thread) {
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
    std::atomic<std::thread::id> thread;
    TestJob job(Note(thread));
    Submit(job, units, seconds);
    const JobResult result = job.Wait();
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_TRUE(result.started);
    EXPECT_EQ(job.starts(), 1);
    return thread.load() == std::this_thread::get_id();
  }
};

TEST_F(SmallJobs, RunOnTheirCallerWhereAWorkerIsIdle) {
  Make(2, kSmall);
  EXPECT_TRUE(RanHere());
  EXPECT_FALSE(RanHere(1, 2 * kSmall)) << "longer";
  EXPECT_FALSE(RanHere(2)) << "several units";
  std::atomic<std::thread::id> thread;
  TestJob other(Note(thread));
  executor_->Submit(other, 1, In(100), {.seconds_per_unit = kSmall});
  other.Wait();
  EXPECT_NE(thread.load(), std::this_thread::get_id()) << "not allowed to";
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
  std::atomic<std::thread::id> thread;
  TestJob job(Note(thread));
  Submit(job);
  EXPECT_FALSE(job.ended());
  EXPECT_EQ(executor_->load().waiting, 1);
  gate.Open();
  blocker->Wait();
  EXPECT_TRUE(job.Wait().status.ok());
  EXPECT_NE(thread.load(), std::this_thread::get_id());
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
  std::atomic<std::thread::id> thread;
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

}  // namespace
}  // namespace attnd::server
