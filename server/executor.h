// Runs the units of many jobs on one set of workers.
//
// Knows neither gRPC nor requests: a Job is anything that falls into units.
// Deadlines fire by timer, in the queue and in the middle of a unit.
#ifndef ATTND_SERVER_EXECUTOR_H_
#define ATTND_SERVER_EXECUTOR_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "server/schedule.h"
#include "server/time_source.h"

namespace attnd::server {

// How a job ended.
struct JobResult {
  // OK; CANCELLED; DEADLINE_EXCEEDED; UNAVAILABLE (the executor stopped); what
  // Start or Run returned; INTERNAL (RESOURCE_EXHAUSTED) when they threw
  // something (std::bad_alloc).
  absl::Status status;
  bool started = false;
  double queue_seconds = 0;  // from Submit to the first unit, or to the end
  double work_seconds = 0;   // of workers, summed over units
  double wall_seconds = 0;   // from the first unit to the end
};

// Derive, submit, keep alive until Done.
class Job : public Schedulable {
 public:
  virtual ~Job() = default;

 protected:
  friend class Executor;
  // On the worker of the first unit, before any unit runs: the place for
  // memory that a waiting job should not hold.
  virtual absl::Status Start() { return absl::OkStatus(); }
  // Units of one job may run on several workers at once. Should return soon
  // after `stop` becomes true. `workspace` is the worker's own; null if the
  // executor was made without workspaces.
  virtual absl::Status Run(int64_t unit, Workspace* workspace,
                           const std::atomic<bool>& stop) = 0;
  // Exactly once, on any thread, without locks held; the executor does not
  // touch the job afterwards, so it may delete itself.
  virtual void Done(const JobResult& result) = 0;

 private:
  // Guarded by the executor's mutex.
  enum class State { kNew, kWaiting, kRunning, kDone };
  State state_ = State::kNew;
  int64_t units_ = 0;
  int64_t next_unit_ = 0;
  int64_t units_running_ = 0;
  Instant submitted_, first_unit_;
  JobResult result_;
  std::atomic<bool> stop_{false};
};

struct ExecutorLoad {
  int64_t waiting = 0;  // jobs without a started unit
  int64_t running = 0;
  int busy_workers = 0;
  double busy_seconds = 0;  // of all workers since the start
};

// Which thread runs a job.
enum class RunOn {
  kWorkers,
  // The one that submits it, where a worker is idle, nothing waits, and the job
  // is one unit that is predicted to take no longer than a hand-over: instead
  // of that worker, so that no more units run at a time than there are workers.
  kCallerIfSmall
};

// Thread-safe.
class Executor {
 public:
  struct Options {
    int workers = 1;
    // Called once per worker; empty = jobs get no workspace.
    std::function<absl::StatusOr<std::unique_ptr<Workspace>>()> workspace = {};
    // What RunOn::kCallerIfSmall takes for small; 0 = nothing.
    double small_seconds = 0;
    // Borrowed; null = the steady clock.
    TimeSource* time = nullptr;
  };

  // Starts the threads; fails as `workspace` does.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      const Options& options);
  // Stops.
  ~Executor();

  // Runs `units` (>= 1) of the job, in the order of Schedule. The job is
  // borrowed until Done, which may be called from within. What Run does not
  // finish by `deadline` ends with DEADLINE_EXCEEDED.
  void Submit(Job& job, int64_t units, Instant deadline,
              const Place& place = {}, RunOn run_on = RunOn::kWorkers);

  // Ends the jobs with `why`, each as soon as no unit of it runs; Done may be
  // called from within. Before Submit: it will end at once. After Done: no
  // effect, provided that the job still exists; each must until its own Done.
  // Jobs that end together are given together: the worker that one of them
  // leaves then takes none of the others.
  void Cancel(absl::Span<Job* const> jobs,
              const absl::Status& why = absl::CancelledError("cancelled"));
  void Cancel(Job& job,
              const absl::Status& why = absl::CancelledError("cancelled")) {
    Cancel({&job}, why);
  }

  // Waits until every submitted job is done; false when `until` came first.
  bool WaitIdle(Instant until);

  // Ends all jobs with UNAVAILABLE, later ones too, and joins the threads.
  void Stop();

  ExecutorLoad load() const;

 private:
  explicit Executor(const Options& options);

  using Lock = std::unique_lock<std::mutex>;
  void Work();
  bool RunsHere(const Job& job, RunOn run_on) const;
  void RunHere(Lock& lock);
  void RunNextUnit(Lock& lock);
  absl::Status RunUnlocked(Job& job, int64_t unit, Workspace* workspace);
  void Claimed(Job& job, Instant now);
  using Jobs = std::vector<Job*>;
  void Abort(Job& job, const absl::Status& status, Jobs& over);
  bool AbortIfDue(Job& job, Instant now, Jobs& over);
  void Finish(Lock& lock, const Jobs& over);
  void FinishIfDone(Lock& lock, Job& job);
  void ExpireDeadlines();

  SteadyTimeSource steady_;
  TimeSource& time_;
  const double small_seconds_;

  mutable std::mutex mutex_;  // guards all below but the threads
  std::condition_variable wake_worker_, wake_timer_, idle_;
  bool stopping_ = false;
  Schedule ready_;          // jobs with units that a worker may claim
  DeadlineList unexpired_;  // jobs whose deadline the timer must watch
  // When the timer looks next by itself: an earlier deadline must wake it, and
  // only such a one, because a wake-up costs as much as a small request.
  Instant timer_wakes_ = Instant::max();
  uint64_t next_number_ = 0;
  int64_t waiting_ = 0, running_ = 0, ending_ = 0;
  double busy_seconds_ = 0;
  // What it takes to run a unit: as many as workers, which take whichever is
  // free, or lend it to a caller.
  struct Slot {
    std::unique_ptr<Workspace> workspace;
    Instant busy_since;  // the epoch = it is free
  };
  std::vector<Slot> slots_;
  std::vector<int> free_slots_;
  int lent_ = 0;

  std::vector<std::thread> threads_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_EXECUTOR_H_
