// A load test against a server that is a formula, on a clock that is a number.
#ifndef ATTND_TESTS_CLIENT_LOAD_SIMULATED_RUN_H_
#define ATTND_TESTS_CLIENT_LOAD_SIMULATED_RUN_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "client/load/conductor.h"

namespace attnd::client {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kSecond = 1'000'000'000;

// What the server does with an attempt that reaches it: when it answers, and
// how. `started_ns` is filled in.
using SimulatedServer =
    std::function<AttemptEnd(const Attempt& attempt, int64_t started_ns)>;

// Answers after a constant time.
inline SimulatedServer ConstantServer(int64_t delay_ns) {
  return [delay_ns](const Attempt&, int64_t started_ns) {
    return AttemptEnd{.ended_ns = started_ns + delay_ns};
  };
}

inline Arrivals EvenArrivals(double rate, double seconds) {
  return Arrivals::Even(*RateProfile::Make({{seconds, rate, rate}}));
}

// Runs to the end without a wait. The client is perfect: it sends exactly when
// something is due.
inline LoadResult Simulate(ConductorOptions options,
                           const SimulatedServer& server) {
  Conductor conductor(std::move(options));
  std::vector<AttemptEnd> in_flight;
  int64_t now = 0;
  while (true) {
    while (const auto attempt = conductor.Take(now)) {
      in_flight.push_back(server(*attempt, now));
      in_flight.back().slot = attempt->slot;
      in_flight.back().started_ns = now;
    }
    if (conductor.finished()) return conductor.Finish();
    const auto first = std::min_element(
        in_flight.begin(), in_flight.end(),
        [](const auto& a, const auto& b) { return a.ended_ns < b.ended_ns; });
    const std::optional<int64_t> due = conductor.NextDue();
    if (first != in_flight.end() && (!due || first->ended_ns <= *due)) {
      now = std::max(now, first->ended_ns);
      conductor.End(*first);
      in_flight.erase(first);
    } else {
      now = std::max(now, *due);
    }
  }
}

}  // namespace attnd::client

#endif  // ATTND_TESTS_CLIENT_LOAD_SIMULATED_RUN_H_
