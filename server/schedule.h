// The order in which jobs are served; the only place that knows the policy.
#ifndef ATTND_SERVER_SCHEDULE_H_
#define ATTND_SERVER_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <set>

#include "server/time_source.h"

namespace attnd::server {

// Where a job stands among others.
struct Place {
  int tenant = 0;
  double weight = 1;  // of its tenant
  int priority = 0;   // within its tenant, larger first
  // Predicted, of one unit.
  double seconds_per_unit = 0;
};

// What the order looks at.
class Schedulable {
 public:
  Instant deadline() const { return deadline_; }
  const Place& place() const { return place_; }

 private:
  friend class Executor;
  friend class Schedule;
  friend class DeadlineList;
  friend class ScheduleTest;
  Instant deadline_;
  uint64_t number_ = 0;  // of arrival
  Place place_;
};

// Tenants share worker time in proportion to their weights as long as they have
// jobs (start-time fair queueing in worker seconds). Within a tenant: higher
// priority, then earlier deadline, then first come first served. Requests
// without a deadline get one on arrival (limits.deadline_seconds), so nothing
// waits for ever. Not thread-safe.
class Schedule {
 public:
  // Worker time that a tenant may catch up with who had little to do before:
  // its requests need not queue behind those of a greedy one.
  static constexpr double kCreditSeconds = 0.1;

  bool empty() const { return jobs_ == 0; }
  // The job to serve next.
  Schedulable* top() const;
  void Add(Schedulable& job);
  // No effect if it is not in.
  void Remove(Schedulable& job);
  // The job's tenant was given worker time, or gave some back.
  void Charge(const Schedulable& job, double seconds);

 private:
  struct Before {
    bool operator()(const Schedulable* a, const Schedulable* b) const;
  };
  struct Tenant {
    // Worker seconds it was given over its weight, and those it let pass.
    double used = 0;
    std::set<Schedulable*, Before> jobs;
  };
  std::map<int, Tenant> tenants_;  // of all that ever came
  // `used` of the tenant that was served last.
  double clock_ = 0;
  int64_t jobs_ = 0;
};

// Jobs by deadline, for the timer. Not thread-safe.
class DeadlineList {
 public:
  bool empty() const { return jobs_.empty(); }
  Schedulable* top() const { return *jobs_.begin(); }
  void Add(Schedulable& job) { jobs_.insert(&job); }
  void Remove(Schedulable& job) { jobs_.erase(&job); }

 private:
  struct Before {
    bool operator()(const Schedulable* a, const Schedulable* b) const {
      return a->deadline_ != b->deadline_ ? a->deadline_ < b->deadline_
                                          : a->number_ < b->number_;
    }
  };
  std::set<Schedulable*, Before> jobs_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_SCHEDULE_H_
