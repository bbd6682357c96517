#include "tests/proof/offered_load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

namespace attnd::testing {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Count(const CallEnd& end, double seconds, Outcomes& outcomes) {
  ++outcomes.codes[end.code];
  if (end.ok()) {
    outcomes.answers.push_back(seconds);
  } else if (!end.Reason().empty()) {
    outcomes.refusals.push_back(seconds);
  }
}

void Sort(Outcomes& outcomes) {
  std::sort(outcomes.answers.begin(), outcomes.answers.end());
  std::sort(outcomes.refusals.begin(), outcomes.refusals.end());
}

struct Call {
  double lateness = 0;
  std::unique_ptr<AttendHandle> handle;
};

// Takes out the calls that have ended; the rest is kept.
void Collect(std::vector<Call>& calls, Outcomes& outcomes) {
  const auto open =
      std::partition(calls.begin(), calls.end(),
                     [](const Call& call) { return !call.handle->ended(); });
  for (auto it = open; it != calls.end(); ++it) {
    const auto& result = it->handle->Wait();
    Count(result, it->lateness + result.seconds, outcomes);
  }
  calls.erase(open, calls.end());
}

}  // namespace

int Outcomes::calls() const {
  int all = 0;
  for (const auto& [code, count] : codes) all += count;
  return all;
}

double Quantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const auto index = static_cast<size_t>(
      std::ceil(q * static_cast<double>(sorted.size())) - 1);
  return sorted[std::min(index, sorted.size() - 1)];
}

Outcomes Offer(const std::string& address, const OfferedLoad& load) {
  // Several connections: each carries a bounded number of calls at a time.
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<TestClient>(address));
    clients.back()->Health("");  // connects
  }
  std::mt19937_64 random(load.seed);
  std::exponential_distribution<double> gap(load.per_second);
  Outcomes outcomes;
  std::vector<Call> calls;
  const Clock::time_point start = Clock::now();
  double due = 0;
  for (size_t i = 0;; ++i) {
    due += load.poisson ? gap(random) : 1 / load.per_second;
    if (due > load.seconds) break;
    while (SecondsSince(start) < due) {
      Collect(calls, outcomes);
      std::this_thread::sleep_until(start +
                                    std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(due)));
    }
    calls.push_back({.lateness = SecondsSince(start) - due,
                     .handle = clients[i % clients.size()]->StartAttend(
                         load.request, load.deadline_seconds, load.metadata)});
  }
  for (const Call& call : calls) call.handle->Wait();
  Collect(calls, outcomes);
  outcomes.seconds = std::max(load.seconds, SecondsSince(start));
  Sort(outcomes);
  return outcomes;
}

Outcomes ClosedLoop(const std::string& address,
                    const v1::AttendRequest& request, int callers,
                    double seconds, const Metadata& metadata) {
  Outcomes outcomes;
  std::mutex mutex;
  std::vector<std::thread> threads;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < callers; ++i) {
    threads.emplace_back([&] {
      TestClient client(address);
      while (SecondsSince(start) < seconds) {
        const auto result = client.Attend(request, kNoDeadline, metadata);
        std::lock_guard lock(mutex);
        Count(result, result.seconds, outcomes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  outcomes.seconds = SecondsSince(start);
  Sort(outcomes);
  return outcomes;
}

}  // namespace attnd::testing
