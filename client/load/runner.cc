#include "client/load/runner.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace attnd::client {
namespace {

constexpr std::chrono::milliseconds kShowEvery(500);
// How often a sleeping sender looks at the stop flag.
constexpr std::chrono::milliseconds kLookEvery(100);

double ProcessCpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ThreadCpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * time.tv_nsec;
}

class Runner {
 public:
  Runner(ConductorOptions options, Transport& transport, const RunOptions& run)
      : transport_(transport), run_(run), conductor_(std::move(options)) {}

  RunOutcome Run() {
    const double cpu = ProcessCpuSeconds();
    start_ns_ = SteadyNs();
    std::thread observer;
    if (run_.observer != nullptr) observer = std::thread([&] { Observe(); });
    std::thread taker([this] { TakeEnds(); });
    SendWhatIsDue();
    taker.join();
    if (observer.joinable()) observer.join();
    const double seconds = static_cast<double>(Now()) * 1e-9;
    outcome_.result = conductor_.Finish();
    outcome_.result.client_cpu_seconds = ProcessCpuSeconds() - cpu;
    outcome_.result.thread_cpu_seconds = std::max(sender_cpu_, taker_cpu_);
    outcome_.result.run_seconds = seconds;
    Name(outcome_.result.endpoints);
    return std::move(outcome_);
  }

 private:
  int64_t Now() const { return SteadyNs() - start_ns_; }

  std::chrono::steady_clock::time_point Moment(int64_t ns) const {
    return std::chrono::steady_clock::time_point(
        std::chrono::nanoseconds(start_ns_ + ns));
  }

  // Starts everything that is due; the lock is free while one is started.
  void StartDue(std::unique_lock<std::mutex>& lock) {
    while (const std::optional<Attempt> attempt = conductor_.Take(Now())) {
      lock.unlock();
      transport_.Start(*attempt);
      lock.lock();
    }
  }

  void SendWhatIsDue() {
    // Otherwise the kernel may wake this thread 50 us late.
    prctl(PR_SET_TIMERSLACK, 1);
    const double cpu = ThreadCpuSeconds();
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      if (run_.stop != nullptr && *run_.stop) conductor_.Stop();
      StartDue(lock);
      if (conductor_.finished()) break;
      auto until = std::chrono::steady_clock::now() + kLookEvery;
      if (const std::optional<int64_t> due = conductor_.NextDue()) {
        until = std::min(until, Moment(*due));
      }
      due_changed_.wait_until(lock, until);
    }
    finished_.notify_all();
    // Without an end that told it, as after arrivals that were all dropped.
    if (!taker_done_) transport_.Wake();
    sender_cpu_ = ThreadCpuSeconds() - cpu;
  }

  // Waits where gRPC reads the connections, also while nothing is in flight:
  // to be told of each call by the sender would cost a wake-up more. Without a
  // deadline, which would be a timer set and cancelled for each call.
  void TakeEnds() {
    const double cpu = ThreadCpuSeconds();
    while (!taker_done_) {
      std::optional<AttemptEnd> end = transport_.Next();
      std::unique_lock<std::mutex> lock(mutex_);
      if (end) Take(std::move(*end), lock);
      taker_done_ = conductor_.finished();
    }
    taker_cpu_ = ThreadCpuSeconds() - cpu;
  }

  // Books an end and starts what it allows.
  void Take(AttemptEnd end, std::unique_lock<std::mutex>& lock) {
    end.started_ns -= start_ns_;
    end.ended_ns -= start_ns_;
    const std::optional<int64_t> before = conductor_.NextDue();
    if (const std::optional<Answer> answer = conductor_.End(end)) {
      Keep(*answer, end);
    }
    StartDue(lock);
    // The sender sleeps until `before`; later is early enough then.
    const std::optional<int64_t> due = conductor_.NextDue();
    if (conductor_.finished() || (due && (!before || *due < *before))) {
      due_changed_.notify_one();
    }
  }

  void Keep(const Answer& answer, const AttemptEnd& end) {
    if (!answer.verify) return;
    if (kept_bytes_ + end.response_bytes > run_.kept_bytes) {
      ++outcome_.not_kept;
      return;
    }
    kept_bytes_ += end.response_bytes;
    outcome_.kept.push_back({answer.request, transport_.TakeAnswer(end.slot)});
  }

  void Observe() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!conductor_.finished()) {
      run_.observer->Observe(conductor_, Now());
      lock.unlock();
      run_.observer->Show();
      lock.lock();
      finished_.wait_for(lock, kShowEvery,
                         [&] { return conductor_.finished(); });
    }
  }

  void Name(std::vector<CallFigures>& endpoints) {
    for (size_t i = 0; i < endpoints.size(); ++i) {
      endpoints[i].name = transport_.EndpointName(static_cast<int>(i));
    }
  }

  Transport& transport_;
  const RunOptions& run_;
  int64_t start_ns_ = 0;

  std::mutex mutex_;
  std::condition_variable due_changed_;
  std::condition_variable finished_;
  Conductor conductor_;
  // Written by the taker alone.
  bool taker_done_ = false;
  RunOutcome outcome_;
  int64_t kept_bytes_ = 0;
  double sender_cpu_ = 0;
  double taker_cpu_ = 0;
};

}  // namespace

RunOutcome RunLoad(ConductorOptions options, Transport& transport,
                   const RunOptions& run) {
  return Runner(std::move(options), transport, run).Run();
}

}  // namespace attnd::client
