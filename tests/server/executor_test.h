// An executor on a clock turned by hand, and jobs that tests look into.
#ifndef ATTND_TESTS_SERVER_EXECUTOR_TEST_H_
#define ATTND_TESTS_SERVER_EXECUTOR_TEST_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "server/executor.h"
#include "tests/server/fake_time.h"

namespace attnd::server {

inline constexpr std::chrono::seconds kPatience(30);

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

inline absl::Status Nothing(int64_t, const std::atomic<bool>&) {
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

  testing::FakeTime time_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace attnd::server

#endif  // ATTND_TESTS_SERVER_EXECUTOR_TEST_H_
