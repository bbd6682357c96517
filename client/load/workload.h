// The requests that a load test sends.
#ifndef ATTND_CLIENT_LOAD_WORKLOAD_H_
#define ATTND_CLIENT_LOAD_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"

namespace attnd::client {

// How the times of a request's rows are made.
enum class TimeKind {
  // No time axes: positions.
  kNone,
  // Equal gaps.
  kGrid,
  // Exponential gaps of the same mean: arrivals of a Poisson process.
  kPoisson,
};

struct Work {
  int64_t batch = 1;
  int64_t heads = 8;
  int64_t kv_heads = 8;
  int64_t queries = 128;
  int64_t keys = 128;
  int64_t dim = 64;
  int64_t value_dim = 64;
  v1::DType dtype = v1::DTYPE_F32;
  // Empty = none.
  std::string encoding = {};
  bool causal = false;
  std::vector<v1::Output> outputs = {v1::OUTPUT_OUTPUT};
  TimeKind times = TimeKind::kPoisson;
  // Mean gap between rows; times are in nanoseconds and end now-ish: in 2026.
  int64_t mean_gap_ns = 1'000'000'000;
  // Requests with data of their own, sent in turn.
  int64_t distinct = 4;
  uint64_t seed = 1;
};

// "B1 H8 Lq128 Lk128 D64 f32 rope causal".
std::string WorkText(const Work& work);

// The first option that is out of range, named as on the command line.
absl::Status CheckWork(const Work& work);

// `work.distinct` requests: values normal with variance 1, times as told, query
// and key times alike as far as both go. The same work gives the same bytes on
// every machine. InvalidArgument by CheckWork().
absl::StatusOr<std::vector<v1::AttendRequest>> MakeRequests(const Work& work);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_WORKLOAD_H_
