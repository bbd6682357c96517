// Who gets in: a bound on the predicted work and on the bytes that wait, and a
// test on arrival whether a deadline can be met.
//
// Knows neither gRPC nor kernels. A request that got in holds a Ticket; what it
// holds is given back when the ticket dies, by whatever path.
#ifndef ATTND_SERVER_ADMISSION_H_
#define ATTND_SERVER_ADMISSION_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/time_source.h"

namespace attnd::server {

struct AdmissionLimits {
  int workers = 1;
  // Predicted worker seconds that may wait, per worker. A request that finds
  // nothing waiting gets in whatever it costs.
  double queue_worker_seconds = 2;
  // Of all that was admitted and has not ended.
  int64_t bytes = int64_t{1} << 30;
  // That have not started.
  int64_t waiting_requests = 4096;
  // Of one request.
  double request_worker_seconds = 60;
};

// Readings at one moment.
struct AdmissionLoad {
  double waiting_seconds = 0;    // predicted, of requests not started
  double remaining_seconds = 0;  // predicted, of all admitted
  int64_t waiting_requests = 0;
  int64_t bytes = 0;
};

// Thread-safe. Must outlive its tickets.
class Admission {
 public:
  class Ticket;

  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Step 1, before memory is spent on a request. Refused: RESOURCE_EXHAUSTED
  // when `bytes` can never fit, UNAVAILABLE with RetryInfo when they or one
  // more request do not fit now, or after Close().
  absl::StatusOr<Ticket> Reserve(int64_t bytes);

  // Step 2, when the cost is known: `seconds` of worker time in `units` pieces.
  // Refused: RESOURCE_EXHAUSTED (costs more than any request may), UNAVAILABLE
  // with RetryInfo (the queue is full, or this request would make one that was
  // admitted miss its deadline), DEADLINE_EXCEEDED (its own deadline cannot be
  // met). Workers serve the earliest deadline first; so does this test.
  absl::Status Admit(Ticket& ticket, double seconds, int64_t units, Instant now,
                     Instant deadline);

  // Seconds until a request of that deadline would start.
  double PredictWait(Instant deadline) const;

  // Refuses everything from now on, as draining.
  void Close();

  AdmissionLoad load() const;
  const AdmissionLimits& limits() const { return limits_; }

 private:
  struct Entry {
    double remaining_seconds = 0;
    bool started = false;
  };
  // Earliest deadline first; the number tells equal deadlines apart.
  using Key = std::pair<Instant, uint64_t>;
  using Entries = std::map<Key, Entry>;

  void Release(Ticket& ticket);
  void Started(Ticket& ticket);
  void Spend(Ticket& ticket, double seconds);
  absl::Status CheckQueue(double seconds, Instant now, Instant deadline,
                          double own_time) const;

  const AdmissionLimits limits_;
  mutable std::mutex mutex_;  // guards all below
  bool closed_ = false;
  uint64_t next_number_ = 0;
  int64_t reserved_ = 0;  // tickets, admitted or not, that have not started
  AdmissionLoad load_;
  Entries entries_;
};

// Move-only; gives back what it holds on destruction.
class Admission::Ticket {
 public:
  Ticket() = default;
  Ticket(Ticket&& other) noexcept { *this = std::move(other); }
  Ticket& operator=(Ticket&& other) noexcept;
  ~Ticket() { Release(); }

  // Its first unit runs: it waits no more.
  void Started();
  // `seconds` of its predicted work are done.
  void Spend(double seconds);
  // Gives everything back now.
  void Release();

 private:
  friend class Admission;
  Admission* admission_ = nullptr;  // null: holds nothing
  int64_t bytes_ = 0;
  bool admitted_ = false;
  bool started_ = false;
  Key key_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ADMISSION_H_
