#include "client/load/closed_loop.h"

#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace attnd::client {
namespace {

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class Runner {
 public:
  Runner(const ClosedLoop& loop, const std::vector<grpc::ByteBuffer>& requests,
         Caller& caller)
      : loop_(loop), requests_(requests), caller_(caller) {}

  LoadResult Run() {
    const SteadyTime begin = std::chrono::steady_clock::now();
    measure_from_ = begin + loop_.warm_up;
    stop_at_ = loop_.duration.count() > 0 ? measure_from_ + loop_.duration
                                          : SteadyTime::max();
    for (int slot = 0; slot < loop_.in_flight; ++slot) StartNext(slot);
    while (caller_.in_flight() > 0) {
      const std::optional<CompletedCall> call = caller_.Next(
          std::chrono::steady_clock::now() + std::chrono::hours(1));
      if (!call) continue;
      Count(*call);
      StartNext(call->slot);
    }
    Finish();
    return std::move(result_);
  }

 private:
  void StartNext(int slot) {
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now >= stop_at_) return;
    if (now >= measure_from_) {
      if (loop_.calls > 0 && measured_started_ == loop_.calls) return;
      if (measured_started_++ == 0) cpu_at_start_ = CpuSeconds();
    }
    caller_.Start(slot, requests_[next_request_]);
    next_request_ = (next_request_ + 1) % requests_.size();
  }

  void Count(const CompletedCall& call) {
    // Started in the warm-up: the clock of a measured call is never before.
    if (call.started < measure_from_) {
      ++result_.warm_up_calls;
      return;
    }
    if (result_.ok + result_.failed == 0) first_start_ = call.started;
    first_start_ = std::min(first_start_, call.started);
    last_end_ = std::max(last_end_, call.ended);
    if (call.status.ok()) {
      ++result_.ok;
      result_.latency_ns.Record((call.ended - call.started).count());
      result_.response_bytes += call.response_bytes;
      result_.request_bytes += static_cast<int64_t>(requests_.front().Length());
    } else {
      ++result_.failed;
      ErrorCount& errors = result_.errors[call.status.code()];
      if (errors.count++ == 0) {
        errors.example = std::string(call.status.message());
      }
    }
  }

  void Finish() {
    if (result_.ok + result_.failed == 0) return;
    result_.span_seconds =
        std::chrono::duration<double>(last_end_ - first_start_).count();
    result_.client_cpu_seconds = CpuSeconds() - cpu_at_start_;
  }

  const ClosedLoop& loop_;
  const std::vector<grpc::ByteBuffer>& requests_;
  Caller& caller_;
  SteadyTime measure_from_;
  SteadyTime stop_at_;
  SteadyTime first_start_;
  SteadyTime last_end_ = SteadyTime::min();
  int64_t measured_started_ = 0;
  double cpu_at_start_ = 0;
  size_t next_request_ = 0;
  LoadResult result_;
};

}  // namespace

LoadResult RunClosedLoop(const ClosedLoop& loop,
                         const std::vector<grpc::ByteBuffer>& requests,
                         Caller& caller) {
  return Runner(loop, requests, caller).Run();
}

}  // namespace attnd::client
