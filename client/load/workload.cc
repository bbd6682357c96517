#include "client/load/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/random.h"
#include "client/request.h"
#include "proto/wire.h"

namespace attnd::client {
namespace {

// 2026-01-01T00:00:00Z: where recorded series end, so that times are as large
// as they really are.
constexpr int64_t kSeriesEndNs = 1'767'225'600'000'000'000;

absl::StatusOr<v1::Tensor> RandomTensor(v1::DType dtype,
                                        absl::Span<const int64_t> shape,
                                        Random& random) {
  std::vector<float> values(*wire::ElementCount(shape));
  for (float& value : values) value = static_cast<float>(random.Normal());
  return dtype == v1::DTYPE_BF16 ? MakeBf16Tensor(values, shape)
                                 : MakeTensor(values, shape);
}

// Times of `rows` rows in increasing order, the last at kSeriesEndNs.
std::vector<int64_t> RowTimes(const Work& work, int64_t rows, Random& random) {
  std::vector<int64_t> times(rows);
  int64_t at = kSeriesEndNs;
  for (int64_t i = rows; i-- > 0;) {
    times[i] = at;
    const double gap =
        work.times == TimeKind::kGrid ? 1.0 : random.Exponential();
    at -= std::llround(gap * static_cast<double>(work.mean_gap_ns));
  }
  return times;
}

absl::Status SetTimes(const Work& work, Random& random,
                      v1::AttendRequest* request) {
  const std::vector<int64_t> times =
      RowTimes(work, std::max(work.queries, work.keys), random);
  const auto last = [&](int64_t rows) {
    return absl::MakeConstSpan(times).last(rows);
  };
  auto query = MakeTimeAxis(last(work.queries), v1::TICK_UNIT_NANOSECONDS);
  auto key = MakeTimeAxis(last(work.keys), v1::TICK_UNIT_NANOSECONDS);
  if (!query.ok()) return query.status();
  if (!key.ok()) return key.status();
  *request->mutable_query_time() = *std::move(query);
  *request->mutable_key_time() = *std::move(key);
  return absl::OkStatus();
}

absl::StatusOr<v1::AttendRequest> MakeRequest(const Work& work,
                                              Random& random) {
  auto query = RandomTensor(
      work.dtype, {work.batch, work.heads, work.queries, work.dim}, random);
  auto key = RandomTensor(
      work.dtype, {work.batch, work.kv_heads, work.keys, work.dim}, random);
  auto value = RandomTensor(
      work.dtype, {work.batch, work.kv_heads, work.keys, work.value_dim},
      random);
  for (const absl::Status& status :
       {query.status(), key.status(), value.status()}) {
    if (!status.ok()) return status;
  }
  v1::AttendRequest request;
  *request.mutable_query() = *std::move(query);
  *request.mutable_key() = *std::move(key);
  *request.mutable_value() = *std::move(value);
  if (work.times != TimeKind::kNone) {
    absl::Status status = SetTimes(work, random, &request);
    if (!status.ok()) return status;
  }
  if (!work.encoding.empty()) request.set_encoding(work.encoding);
  if (work.causal) request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  for (v1::Output output : work.outputs) request.add_outputs(output);
  return request;
}

}  // namespace

std::string WorkText(const Work& work) {
  std::string text = absl::StrCat("B", work.batch, " H", work.heads);
  if (work.kv_heads != work.heads) {
    absl::StrAppend(&text, "/", work.kv_heads);
  }
  absl::StrAppend(&text, " Lq", work.queries, " Lk", work.keys, " D", work.dim);
  if (work.value_dim != work.dim) {
    absl::StrAppend(&text, " Dv", work.value_dim);
  }
  absl::StrAppend(&text, " ", wire::DTypeText(work.dtype));
  if (!work.encoding.empty()) absl::StrAppend(&text, " ", work.encoding);
  if (work.causal) absl::StrAppend(&text, " causal");
  return text;
}

absl::Status CheckWork(const Work& work) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"--batch", work.batch},         {"--heads", work.heads},
      {"--kv-heads", work.kv_heads},   {"--queries", work.queries},
      {"--keys", work.keys},           {"--dim", work.dim},
      {"--value-dim", work.value_dim}, {"--distinct", work.distinct}};
  for (const auto& [name, size] : sizes) {
    if (size < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " ", size, ": expected at least 1"));
    }
  }
  if (work.heads % work.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--kv-heads ", work.kv_heads,
                                                   ": expected a divisor of ",
                                                   "--heads ", work.heads));
  }
  // A series of more than 200 years would leave the int64 nanoseconds.
  const double span = static_cast<double>(std::max(work.queries, work.keys)) *
                      static_cast<double>(work.mean_gap_ns);
  if (work.mean_gap_ns < 0 || span > 6e18) {
    return absl::InvalidArgumentError(
        "--gap: expected at least 0, and less than 200 years for all rows");
  }
  const int64_t key_elements[] = {work.batch, work.kv_heads, work.keys,
                                  std::max(work.dim, work.value_dim)};
  const int64_t query_elements[] = {work.batch, work.heads, work.queries,
                                    work.dim};
  for (absl::Span<const int64_t> shape :
       {absl::MakeConstSpan(key_elements),
        absl::MakeConstSpan(query_elements)}) {
    const auto count = wire::ElementCount(shape);
    if (!count || *count > int64_t{1} << 29) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", wire::ShapeText(shape),
                       ": above 2 GiB, the limit of a "
                       "message"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::AttendRequest>> MakeRequests(const Work& work) {
  if (absl::Status bad = CheckWork(work); !bad.ok()) return bad;
  Random random(work.seed);
  std::vector<v1::AttendRequest> requests;
  for (int64_t i = 0; i < work.distinct; ++i) {
    absl::StatusOr<v1::AttendRequest> request = MakeRequest(work, random);
    if (!request.ok()) return request.status();
    request->set_request_id(absl::StrCat("load ", i));
    requests.push_back(*std::move(request));
  }
  return requests;
}

}  // namespace attnd::client
