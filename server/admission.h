// Who gets in: a bound on the predicted work and on the bytes that wait, fair
// among tenants, and a test on arrival whether a deadline can be met.
//
// Knows neither gRPC nor kernels. A request that got in holds a Ticket; what it
// holds is given back when the ticket dies, by whatever path.
#ifndef ATTND_SERVER_ADMISSION_H_
#define ATTND_SERVER_ADMISSION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/tenants.h"
#include "server/time_source.h"

namespace attnd::server {

struct AdmissionLimits {
  int workers = 1;
  // Predicted worker seconds that may wait, per worker: half of them whoever
  // asks, the other half by share. Beside them may wait one request at a time
  // that does not fit and finds nothing of its tenant waiting.
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

// What a request asks of the workers.
struct Demand {
  double seconds = 0;  // predicted
  int64_t units = 1;   // pieces that may run at once
  Instant deadline = {};
  int priority = 0;  // within its tenant, larger first
};

// Thread-safe. Must outlive its tickets.
class Admission : public std::enable_shared_from_this<Admission> {
 public:
  class Ticket;

  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Step 1, before memory is spent on a request. Refused: RESOURCE_EXHAUSTED
  // when `bytes` can never fit, UNAVAILABLE with RetryInfo when they or one
  // more request do not fit now, or after Close(). When half is taken, a
  // tenant that has more than its share of that half is refused: the other
  // half is for those who have less.
  absl::StatusOr<Ticket> Reserve(int64_t bytes, const Tenant& tenant = {});

  // Step 2, when the cost is known. Refused: RESOURCE_EXHAUSTED (costs more
  // than any request may; or, with RetryInfo, the tenant's quota is used up),
  // UNAVAILABLE with RetryInfo (the queue is full, or half full and the tenant
  // has its share of the other half; or this request would make one of its
  // tenant that was admitted miss its deadline), DEADLINE_EXCEEDED (its own
  // deadline cannot be met). The test follows the order of Schedule: what is
  // due before within the tenant, and of each other tenant as much as its
  // weight gives it in that time.
  absl::Status Admit(Ticket& ticket, const Demand& demand, Instant now);

  // Seconds until a request of that deadline would start.
  double PredictWait(Instant deadline, const Tenant& tenant = {}) const;

  // Refuses everything from now on, as draining.
  void Close();

  AdmissionLoad load() const;
  AdmissionLimits limits() const;
  // Those of a new configuration; what was admitted stays so.
  void SetLimits(const AdmissionLimits& limits);

 private:
  struct Entry {
    double remaining_seconds = 0;
    bool started = false;
    bool oversized = false;
  };
  // The order of service within a tenant; the number tells equal ones apart.
  using Key = std::tuple<int, Instant, uint64_t>;
  using Entries = std::map<Key, Entry>;
  struct Party {
    double weight = 1;
    AdmissionLoad load;
    int64_t reserved = 0;
    Entries entries;
    // Worker seconds left of its quota, and when they were counted.
    double tokens = 0;
    Instant counted = {};
  };

  void Release(Ticket& ticket);
  void Keep(Ticket& ticket, int64_t bytes);
  void ReleaseWork(const Ticket& ticket);
  void Started(Ticket& ticket);
  void Spend(Ticket& ticket, double seconds);
  absl::Status CheckQuota(Party& party, const Tenant& tenant, Instant now);
  double Excess(const Party& party, const Tenant& tenant, double seconds) const;
  absl::Status CheckQueue(const Party& party, double excess) const;
  void WaitsNoMore(Party& party, const Entry& entry);
  absl::Status CheckDeadlines(const Party& party, const Demand& demand,
                              Instant now) const;
  double WaitFor(const Party& party, double due) const;

  mutable std::mutex mutex_;  // guards all below
  AdmissionLimits limits_;
  bool closed_ = false;
  uint64_t next_number_ = 0;
  double oversized_ = 0;  // seconds of the request that waits beyond the limit
  int64_t reserved_ = 0;  // tickets, admitted or not, that have not started
  AdmissionLoad load_;
  std::map<int, Party> parties_;  // by tenant, of all that ever came
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
  // Its work is over; `bytes` stay charged, for a reply that is being sent.
  void KeepBytes(int64_t bytes);
  // Gives everything back now.
  void Release();

 private:
  friend class Admission;
  Admission* admission_ = nullptr;  // null: holds nothing
  Tenant tenant_;
  int64_t bytes_ = 0;
  bool admitted_ = false;
  bool started_ = false;
  Key key_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ADMISSION_H_
