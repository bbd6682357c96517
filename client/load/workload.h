// The requests that a load test sends.
#ifndef ATTND_CLIENT_LOAD_WORKLOAD_H_
#define ATTND_CLIENT_LOAD_WORKLOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/interpolate/series.h"
#include "client/load/row_times.h"

namespace attnd::client {

struct Work {
  int64_t batch = 1;
  int64_t heads = 8;
  int64_t kv_heads = 8;
  int64_t queries = 128;
  int64_t keys = 128;
  int64_t dim = 64;
  int64_t value_dim = 64;
  v1::DType dtype = v1::DTYPE_F32;
  v1::ComputePrecision compute = v1::COMPUTE_PRECISION_UNSPECIFIED;
  // Empty = none.
  std::string encoding = {};
  v1::Causality causal = v1::CAUSALITY_UNSPECIFIED;
  bool strict = false;
  v1::AttentionKind kind = v1::ATTENTION_KIND_UNSPECIFIED;
  v1::LinearOptions linear = {};  // of the linear kind
  // Windows of the mask.
  std::optional<int64_t> past_ns = std::nullopt;
  std::optional<int64_t> future_ns = std::nullopt;
  std::optional<int64_t> past_keys = std::nullopt;
  // Batch items have lengths of their own, evenly spread over the upper part of
  // this size: 0.5 = from half of the rows to all. 0 = all rows.
  double ragged = 0;
  std::vector<v1::Output> outputs = {v1::OUTPUT_OUTPUT};
  TimeKind times = TimeKind::kPoisson;
  // Mean gap between rows; times are in nanoseconds and end in 2026.
  int64_t mean_gap_ns = 1'000'000'000;
  int32_t priority = 0;
  // Requests with data of their own, sent in turn.
  int64_t distinct = 4;
  uint64_t seed = 1;
};

// "B1 H8 Lq128 Lk128 D64 f32 rope causal".
std::string WorkText(const Work& work);

// The first option that is out of range, named as on the command line.
absl::Status CheckWork(const Work& work);

// What one request of checked work holds, nearly.
double RequestBytes(const Work& work);

// `work.distinct` requests: values normal with variance 1, times as told, query
// and key times alike as far as both go. The same work gives the same bytes on
// every machine. InvalidArgument by CheckWork().
absl::StatusOr<std::vector<v1::AttendRequest>> MakeRequests(const Work& work);

// Windows of a recorded series, evenly spread over it: the times and values of
// `work.keys` neighbouring observations (every head and channel of the value
// has the observation less the window's mean), queried at the last
// `work.queries` of them. InvalidArgument when the series is shorter.
absl::StatusOr<std::vector<v1::AttendRequest>> MakeSeriesRequests(
    const Work& work, const Series& series);

// Sets encoding, mask, outputs and priority of a request whose tensors stand.
void SetChoices(const Work& work, v1::AttendRequest* request);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_WORKLOAD_H_
