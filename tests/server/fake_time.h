// A clock that tests turn by hand.
#ifndef ATTND_TESTS_SERVER_FAKE_TIME_H_
#define ATTND_TESTS_SERVER_FAKE_TIME_H_

#include <mutex>
#include <set>

#include "server/time_source.h"

namespace attnd::testing {

class FakeTime : public server::TimeSource {
 public:
  server::Instant Now() const override {
    std::lock_guard lock(mutex_);
    return now_;
  }

  // `lock` is released while waiting, as with a condition variable.
  void WaitUntil(std::condition_variable& wake,
                 std::unique_lock<std::mutex>& lock,
                 server::Instant until) override {
    {
      std::lock_guard own(mutex_);
      if (now_ >= until) return;
      waiters_.insert({&wake, lock.mutex()});
    }
    wake.wait(lock);
    std::lock_guard own(mutex_);
    waiters_.erase(waiters_.find({&wake, lock.mutex()}));
  }

  void Advance(double seconds) {
    std::multiset<Waiter> waiters;
    {
      std::lock_guard lock(mutex_);
      now_ += server::FromSeconds(seconds);
      waiters = waiters_;
    }
    for (const auto& [wake, mutex] : waiters) {
      // A waiter holds its mutex from reading the clock until it waits, so
      // this cannot come in between.
      std::lock_guard lock(*mutex);
      wake->notify_all();
    }
  }

 private:
  using Waiter = std::pair<std::condition_variable*, std::mutex*>;
  mutable std::mutex mutex_;
  server::Instant now_{std::chrono::hours(1)};
  std::multiset<Waiter> waiters_;
};

}  // namespace attnd::testing

#endif  // ATTND_TESTS_SERVER_FAKE_TIME_H_
