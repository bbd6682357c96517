// Decides what is sent when, and keeps the books of what became of it.
//
// It has no clock, no thread and no connection: whoever drives it tells what
// time it is, so that a test can play hours in a moment. The two loops differ
// in one thing. An open loop sends at planned moments, whatever became of
// earlier calls; a closed loop sends when a call has ended, and so asks less of
// a slow server: its latencies say how long answers take at this concurrency,
// not how long users with a schedule of their own would wait.
#ifndef ATTND_CLIENT_LOAD_CONDUCTOR_H_
#define ATTND_CLIENT_LOAD_CONDUCTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/load/arrivals.h"
#include "client/load/load_result.h"
#include "client/random.h"

namespace attnd::client {

// One kind of work in the mix.
struct WorkShare {
  std::string name = {};
  double weight = 1;
  // Distinct requests, sent in turn, and the size of one.
  int requests = 1;
  int64_t request_bytes = 0;
};

// Moments are nanoseconds from the start of the schedule.
struct ConductorOptions {
  // Absent = closed loop.
  std::optional<Arrivals> arrivals = std::nullopt;
  // Calls in flight at most, >= 1; in a closed loop always as many.
  int slots = 1;
  // Open loop, cap reached: drop the arrival and count it, or let it wait.
  bool wait_when_full = false;
  // Calls planned before this moment are not measured.
  int64_t warm_up_ns = 0;
  // The measured part ends when either is reached; 0 = not bounded by it. Calls
  // in flight at the end are waited for.
  int64_t duration_ns = 0;
  int64_t calls = 0;
  // Length of the timeline's rows at first.
  int64_t row_ns = 100'000'000;
  // Attempts per call, as RetryWait() allows them, within one time-out.
  int max_attempts = 1;
  int64_t timeout_ns = 60'000'000'000;
  // Not empty. Request numbers count through all kinds.
  std::vector<WorkShare> work = {{}};
  // Share of the measured calls whose answers are wanted.
  double verify_share = 0;
  uint64_t seed = 1;
};

// An attempt to be made now.
struct Attempt {
  // Place in which it is in flight.
  int slot = 0;
  // Which request to send.
  int request = 0;
  // Attempts of the same call before it.
  int previous = 0;
  int64_t timeout_ns = 0;
};

// How an attempt ended.
struct AttemptEnd {
  int slot = 0;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  absl::Status status = absl::OkStatus();
  int64_t response_bytes = 0;
  // Number of the endpoint that answered, from 0; -1 = unknown.
  int endpoint = -1;
};

// What the driver may want to do with an answer.
struct Answer {
  int request = 0;
  bool verify = false;
};

// Not thread-safe. Neither Take nor End allocates, save for errors and for
// endpoints seen for the first time.
class Conductor {
 public:
  explicit Conductor(ConductorOptions options);

  // What to send at this moment; call again until there is nothing. Counts
  // arrivals that are dropped. `now_ns` never goes back.
  std::optional<Attempt> Take(int64_t now_ns);

  // The next moment at which Take() may have something even if no call ends.
  std::optional<int64_t> NextDue() const;

  // Takes the end of an attempt; nullopt unless it was a measured answer.
  std::optional<Answer> End(const AttemptEnd& end);

  // Plans nothing more.
  void Stop();

  // Nothing is planned and nothing in flight.
  bool finished() const;

  int in_flight() const;
  const LoadResult& result() const { return result_; }
  // The books, with spans; the conductor is of no use after it.
  LoadResult Finish();

 private:
  // A call in its slot.
  struct Call {
    int64_t planned_ns = 0;
    int64_t first_sent_ns = 0;
    int request = 0;
    int work = 0;
    int attempts = 0;
    bool verify = false;
  };
  struct Retry {
    int64_t due_ns;
    int slot;
    bool operator<(const Retry& other) const { return due_ns > other.due_ns; }
  };

  bool measured(int64_t planned_ns) const {
    return planned_ns >= options_.warm_up_ns;
  }
  // Draws what a call planned at this moment sends.
  Call Plan(int64_t planned_ns);
  void Advance();
  bool Ended(int64_t planned_ns) const;
  Attempt Begin(const Call& call, int64_t now_ns);
  Attempt Again(int64_t now_ns);
  void Drop(int64_t planned_ns);
  bool WillRetry(const Call& call, const AttemptEnd& end);
  void Record(const Call& call, const AttemptEnd& end);

  ConductorOptions options_;
  LoadResult result_;
  Random random_;
  std::vector<double> weight_sums_;
  std::vector<int> first_request_;
  std::vector<int> next_request_;
  std::vector<Call> calls_;
  std::vector<int> free_;
  // A heap, the earliest first.
  std::vector<Retry> retries_;
  // Open loop: the next arrival.
  std::optional<int64_t> next_;
  bool over_ = false;
  // When a place was last freed while all were taken.
  int64_t full_until_ns_ = -1;
  int64_t first_planned_ns_ = 0;
  int64_t last_planned_ns_ = 0;
  int64_t last_end_ns_ = 0;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_CONDUCTOR_H_
