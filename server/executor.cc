#include "server/executor.h"

#include <pthread.h>

#include <utility>

#include "server/guarded.h"

namespace attnd::server {
namespace {

constexpr Instant kIdle{};

}  // namespace

Executor::Executor(const Options& options)
    : time_(options.time != nullptr ? *options.time : steady_),
      busy_since_(options.workers, kIdle) {}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    const Options& options) {
  std::unique_ptr<Executor> executor(new Executor(options));
  Executor& self = *executor;
  // A workspace belongs to the thread that makes it, so each worker makes its
  // own and reports before it starts to work.
  absl::Status failure;
  int reports = 0;
  std::condition_variable reported;
  for (int worker = 0; worker < options.workers; ++worker) {
    self.threads_.emplace_back(
        [&self, &options, &failure, &reports, &reported, worker] {
          pthread_setname_np(pthread_self(), "attnd-worker");
          std::unique_ptr<Workspace> workspace;
          absl::Status status = Guarded([&]() -> absl::Status {
            if (!options.workspace) return absl::OkStatus();
            auto made = options.workspace();
            if (made.ok()) workspace = *std::move(made);
            return made.status();
          });
          {
            std::lock_guard lock(self.mutex_);
            if (!status.ok()) failure = status;
            ++reports;
            reported.notify_one();
          }
          // The captured references are dead from here on.
          if (status.ok()) self.Work(worker, workspace.get());
        });
  }
  self.threads_.emplace_back([&self] {
    pthread_setname_np(pthread_self(), "attnd-timer");
    self.ExpireDeadlines();
  });
  {
    Lock lock(self.mutex_);
    reported.wait(lock, [&] { return reports == options.workers; });
  }
  if (!failure.ok()) return failure;
  return executor;
}

Executor::~Executor() { Stop(); }

void Executor::Submit(Job& job, int64_t units, Instant deadline,
                      const Place& place) {
  Lock lock(mutex_);
  static_cast<Schedulable&>(job).place_ = place;
  static_cast<Schedulable&>(job).deadline_ = deadline;
  static_cast<Schedulable&>(job).number_ = next_number_++;
  job.units_ = units;
  job.submitted_ = time_.Now();
  job.state_ = Job::State::kWaiting;
  ++waiting_;
  if (stopping_) {
    return Abort(lock, job, absl::UnavailableError("the server is stopping"));
  }
  if (!job.result_.status.ok()) return FinishIfDone(lock, job);
  ready_.Add(job);
  unexpired_.Add(job);
  if (deadline < timer_wakes_) wake_timer_.notify_one();
  wake_worker_.notify_one();
}

void Executor::Cancel(Job& job) {
  Lock lock(mutex_);
  Abort(lock, job, absl::CancelledError("cancelled by the caller"));
}

// Called with the lock, which it may release at its end.
void Executor::Abort(Lock& lock, Job& job, const absl::Status& status) {
  if (job.state_ == Job::State::kDone || !job.result_.status.ok()) return;
  job.result_.status = status;
  job.stop_.store(true, std::memory_order_relaxed);
  if (job.state_ == Job::State::kNew) return;  // Submit will see the status
  ready_.Remove(job);
  unexpired_.Remove(job);
  FinishIfDone(lock, job);
}

// Called with the lock; if nothing of the job is left to do, releases it and
// calls Done.
void Executor::FinishIfDone(Lock& lock, Job& job) {
  const bool all_claimed = job.next_unit_ == job.units_;
  if (job.units_running_ > 0 || (job.result_.status.ok() && !all_claimed)) {
    return;
  }
  const Instant now = time_.Now();
  JobResult& result = job.result_;
  result.started = job.state_ == Job::State::kRunning;
  if (result.started) {
    result.wall_seconds = Seconds(now - job.first_unit_);
    --running_;
  } else {
    result.queue_seconds = Seconds(now - job.submitted_);
    --waiting_;
  }
  job.state_ = Job::State::kDone;
  unexpired_.Remove(job);
  ++ending_;
  lock.unlock();
  job.Done(JobResult(std::move(result)));
  lock.lock();
  --ending_;
  if (waiting_ + running_ + ending_ == 0) idle_.notify_all();
}

void Executor::Work(int worker, Workspace* workspace) {
  Lock lock(mutex_);
  while (true) {
    wake_worker_.wait(lock, [&] { return stopping_ || !ready_.empty(); });
    if (ready_.empty()) return;
    RunNextUnit(lock, worker, workspace);
  }
}

// Bookkeeping of a job's first claimed unit.
void Executor::Claimed(Job& job, Instant now) {
  job.state_ = Job::State::kRunning;
  job.first_unit_ = now;
  job.result_.queue_seconds = Seconds(now - job.submitted_);
  --waiting_;
  ++running_;
}

void Executor::RunNextUnit(Lock& lock, int worker, Workspace* workspace) {
  Job& job = static_cast<Job&>(*ready_.top());
  const int64_t unit = job.next_unit_++;
  ++job.units_running_;
  const double predicted = job.place().seconds_per_unit;
  ready_.Charge(job, predicted);
  const Instant start = busy_since_[worker] = time_.Now();
  if (unit == 0) Claimed(job, start);
  // While Start runs nobody else may claim a unit.
  if (unit == 0 || job.next_unit_ == job.units_) ready_.Remove(job);
  if (!ready_.empty()) wake_worker_.notify_one();
  lock.unlock();

  absl::Status status;
  if (unit == 0) {
    status = Guarded([&] { return job.Start(); });
    if (status.ok() && job.units_ > 1) {
      std::lock_guard relock(mutex_);
      if (job.result_.status.ok()) ready_.Add(job);
      wake_worker_.notify_one();
    }
  }
  if (status.ok()) status = RunUnlocked(job, unit, workspace);

  lock.lock();
  const double took = Seconds(time_.Now() - start);
  busy_since_[worker] = kIdle;
  busy_seconds_ += took;
  job.result_.work_seconds += took;
  ready_.Charge(job, took - predicted);
  --job.units_running_;
  if (!status.ok() && job.result_.status.ok()) {
    job.result_.status = std::move(status);
    job.stop_.store(true, std::memory_order_relaxed);
    ready_.Remove(job);
  }
  FinishIfDone(lock, job);
}

absl::Status Executor::RunUnlocked(Job& job, int64_t unit,
                                   Workspace* workspace) {
  if (job.stop_.load(std::memory_order_relaxed)) {
    return absl::CancelledError("stopped");
  }
  return Guarded([&] { return job.Run(unit, workspace, job.stop_); });
}

void Executor::ExpireDeadlines() {
  Lock lock(mutex_);
  while (!stopping_) {
    // The jobs it sleeps for mostly end before; then it finds nothing due.
    timer_wakes_ =
        unexpired_.empty() ? Instant::max() : unexpired_.top()->deadline();
    if (unexpired_.empty()) {
      wake_timer_.wait(lock);
      continue;
    }
    Job& job = static_cast<Job&>(*unexpired_.top());
    if (job.deadline() > time_.Now()) {
      time_.WaitUntil(wake_timer_, lock, timer_wakes_);
      continue;  // the job may be gone, another may come first
    }
    Abort(lock, job,
          absl::DeadlineExceededError(job.state_ == Job::State::kWaiting
                                          ? "expired while waiting"
                                          : "expired while computing"));
  }
}

bool Executor::WaitIdle(Instant until) {
  Lock lock(mutex_);
  const auto idle = [&] { return waiting_ + running_ + ending_ == 0; };
  while (!idle() && time_.Now() < until) {
    time_.WaitUntil(idle_, lock, until);
  }
  return idle();
}

void Executor::Stop() {
  {
    Lock lock(mutex_);
    stopping_ = true;
    // Every job that has not been told to end is watched by the timer's list.
    while (!unexpired_.empty()) {
      Abort(lock, static_cast<Job&>(*unexpired_.top()),
            absl::UnavailableError("the server is stopping"));
    }
    wake_worker_.notify_all();
    wake_timer_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

ExecutorLoad Executor::load() const {
  std::lock_guard lock(mutex_);
  ExecutorLoad load = {.waiting = waiting_,
                       .running = running_,
                       .busy_workers = 0,
                       .busy_seconds = busy_seconds_};
  const Instant now = time_.Now();
  for (const Instant since : busy_since_) {
    if (since == kIdle) continue;
    ++load.busy_workers;
    load.busy_seconds += Seconds(now - since);
  }
  return load;
}

}  // namespace attnd::server
