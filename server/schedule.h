// The order in which jobs are served; the only place that knows the policy.
#ifndef ATTND_SERVER_SCHEDULE_H_
#define ATTND_SERVER_SCHEDULE_H_

#include <cstdint>
#include <set>

#include "server/time_source.h"

namespace attnd::server {

// What the order looks at.
class Schedulable {
 public:
  Instant deadline() const { return deadline_; }

 private:
  friend class Executor;
  friend class Schedule;
  Instant deadline_;
  uint64_t number_ = 0;  // of arrival
};

// Earliest deadline first, then first come first served. Requests without a
// deadline get one on arrival (limits.deadline_seconds), so nothing waits for
// ever. Not thread-safe.
class Schedule {
 public:
  bool empty() const { return jobs_.empty(); }
  // The job to serve next.
  Schedulable* top() const { return *jobs_.begin(); }
  void Add(Schedulable& job) { jobs_.insert(&job); }
  // No effect if it is not in.
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
