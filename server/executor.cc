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
      small_seconds_(options.small_seconds),
      slots_(options.workers) {}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    const Options& options) {
  std::unique_ptr<Executor> executor(new Executor(options));
  Executor& self = *executor;
  // Each worker makes a workspace, which pins its thread, and reports before it
  // starts to work.
  absl::Status failure;
  int reports = 0;
  std::condition_variable reported;
  for (int worker = 0; worker < options.workers; ++worker) {
    self.threads_.emplace_back(
        [&self, &options, &failure, &reports, &reported, worker] {
          pthread_setname_np(pthread_self(), "attnd-worker");
          absl::Status status = Guarded([&]() -> absl::Status {
            if (!options.workspace) return absl::OkStatus();
            auto made = options.workspace();
            if (made.ok()) self.slots_[worker].workspace = *std::move(made);
            return made.status();
          });
          {
            std::lock_guard lock(self.mutex_);
            if (!status.ok()) failure = status;
            self.free_slots_.push_back(worker);
            ++reports;
            reported.notify_one();
          }
          // The captured references are dead from here on.
          if (status.ok()) self.Work();
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
                      const Place& place, RunOn run_on) {
  Lock lock(mutex_);
  static_cast<Schedulable&>(job).place_ = place;
  static_cast<Schedulable&>(job).deadline_ = deadline;
  static_cast<Schedulable&>(job).number_ = next_number_++;
  job.units_ = units;
  job.submitted_ = time_.Now();
  job.state_ = Job::State::kWaiting;
  ++waiting_;
  if (stopping_) {
    Jobs over;
    Abort(job, absl::UnavailableError("the server is stopping"), over);
    return Finish(lock, over);
  }
  if (!job.result_.status.ok()) return FinishIfDone(lock, job);
  const bool here = RunsHere(job, run_on);
  ready_.Add(job);
  unexpired_.Add(job);
  if (deadline < timer_wakes_) wake_timer_.notify_one();
  if (here) return RunHere(lock);
  // Whoever frees a slot looks for work.
  if (!free_slots_.empty()) wake_worker_.notify_one();
}

bool Executor::RunsHere(const Job& job, RunOn run_on) const {
  return run_on == RunOn::kCallerIfSmall && job.units_ == 1 &&
         job.place().seconds_per_unit <= small_seconds_ && ready_.empty() &&
         !free_slots_.empty();
}

// Called with the lock, the job being the only one that is ready.
void Executor::RunHere(Lock& lock) {
  ++lent_;
  Workspace::PinThread();
  RunNextUnit(lock);
  --lent_;
  if (stopping_) idle_.notify_all();
}

void Executor::Cancel(absl::Span<Job* const> jobs, const absl::Status& why) {
  Lock lock(mutex_);
  Jobs over;
  for (Job* job : jobs) Abort(*job, why, over);
  Finish(lock, over);
}

// No unit of the job will start; one of which none runs is added to `over`, and
// is the caller's to finish. To abort several, abort all before the first is
// finished, which releases the lock: a worker could take one of the others.
void Executor::Abort(Job& job, const absl::Status& status, Jobs& over) {
  if (job.state_ == Job::State::kDone || !job.result_.status.ok()) return;
  job.result_.status = status;
  job.stop_.store(true, std::memory_order_relaxed);
  if (job.state_ == Job::State::kNew) return;  // Submit will see the status
  ready_.Remove(job);
  unexpired_.Remove(job);
  if (job.units_running_ == 0) over.push_back(&job);
}

bool Executor::AbortIfDue(Job& job, Instant now, Jobs& over) {
  if (job.deadline() > now) return false;
  Abort(job,
        absl::DeadlineExceededError(job.state_ == Job::State::kWaiting
                                        ? "expired while waiting"
                                        : "expired while computing"),
        over);
  return true;
}

// Called with the lock, which it may release.
void Executor::Finish(Lock& lock, const Jobs& over) {
  for (Job* job : over) FinishIfDone(lock, *job);
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

void Executor::Work() {
  Lock lock(mutex_);
  while (true) {
    wake_worker_.wait(lock, [&] {
      return stopping_ || (!ready_.empty() && !free_slots_.empty());
    });
    if (ready_.empty()) return;
    RunNextUnit(lock);
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

// Takes a free slot for it.
void Executor::RunNextUnit(Lock& lock) {
  Job& job = static_cast<Job&>(*ready_.top());
  const Instant start = time_.Now();
  // The timer may be late by a moment.
  Jobs over;
  if (AbortIfDue(job, start, over)) return Finish(lock, over);
  const int taken = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[taken];
  slot.busy_since = start;
  const int64_t unit = job.next_unit_++;
  ++job.units_running_;
  const double predicted = job.place().seconds_per_unit;
  ready_.Charge(job, predicted);
  if (unit == 0) Claimed(job, start);
  // While Start runs nobody else may claim a unit.
  if (unit == 0 || job.next_unit_ == job.units_) ready_.Remove(job);
  if (!ready_.empty() && !free_slots_.empty()) wake_worker_.notify_one();
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
  if (status.ok()) status = RunUnlocked(job, unit, slot.workspace.get());

  lock.lock();
  const double took = Seconds(time_.Now() - start);
  slot.busy_since = kIdle;
  free_slots_.push_back(taken);
  // This thread may be a caller's, or busy with the end of the job.
  if (!ready_.empty()) wake_worker_.notify_one();
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
    const Instant now = time_.Now();
    Jobs over;
    bool due = false;
    while (!unexpired_.empty() &&
           AbortIfDue(static_cast<Job&>(*unexpired_.top()), now, over)) {
      due = true;
    }
    if (due) {
      Finish(lock, over);
    } else {
      // The job may be gone afterwards, another may come first.
      time_.WaitUntil(wake_timer_, lock, timer_wakes_);
    }
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
    Jobs over;
    while (!unexpired_.empty()) {
      Abort(static_cast<Job&>(*unexpired_.top()),
            absl::UnavailableError("the server is stopping"), over);
    }
    Finish(lock, over);
    wake_worker_.notify_all();
    wake_timer_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  Lock lock(mutex_);
  idle_.wait(lock, [&] { return lent_ == 0; });
}

ExecutorLoad Executor::load() const {
  std::lock_guard lock(mutex_);
  ExecutorLoad load = {.waiting = waiting_,
                       .running = running_,
                       .busy_workers = 0,
                       .busy_seconds = busy_seconds_};
  const Instant now = time_.Now();
  for (const Slot& slot : slots_) {
    if (slot.busy_since == kIdle) continue;
    ++load.busy_workers;
    load.busy_seconds += Seconds(now - slot.busy_since);
  }
  return load;
}

}  // namespace attnd::server
