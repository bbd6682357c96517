// The clock of admission and executor, replaceable in tests.
#ifndef ATTND_SERVER_TIME_SOURCE_H_
#define ATTND_SERVER_TIME_SOURCE_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace attnd::server {

// Monotonic: jumps of the wall clock neither expire nor prolong anything.
using Instant = std::chrono::steady_clock::time_point;

inline double Seconds(Instant::duration d) {
  return std::chrono::duration<double>(d).count();
}

inline Instant::duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Instant::duration>(
      std::chrono::duration<double>(seconds));
}

class TimeSource {
 public:
  virtual ~TimeSource() = default;
  virtual Instant Now() const = 0;
  // Waits on `wake` until it is notified or `until` has come; may return early.
  virtual void WaitUntil(std::condition_variable& wake,
                         std::unique_lock<std::mutex>& lock, Instant until) = 0;
};

class SteadyTimeSource : public TimeSource {
 public:
  Instant Now() const override { return std::chrono::steady_clock::now(); }
  void WaitUntil(std::condition_variable& wake,
                 std::unique_lock<std::mutex>& lock, Instant until) override {
    wake.wait_until(lock, until);
  }
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_TIME_SOURCE_H_
