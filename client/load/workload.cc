#include "client/load/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/duration_text.h"
#include "client/random.h"
#include "client/request.h"
#include "proto/wire.h"

namespace attnd::client {
namespace {

absl::StatusOr<v1::Tensor> ToTensor(v1::DType dtype,
                                    const std::vector<float>& values,
                                    absl::Span<const int64_t> shape) {
  switch (dtype) {
    case v1::DTYPE_BF16:
      return MakeBf16Tensor(values, shape);
    case v1::DTYPE_F16:
      return MakeF16Tensor(values, shape);
    default:
      return MakeTensor(values, shape);
  }
}

absl::StatusOr<v1::Tensor> RandomTensor(v1::DType dtype,
                                        absl::Span<const int64_t> shape,
                                        Random& random) {
  std::vector<float> values(*wire::ElementCount(shape));
  for (float& value : values) value = static_cast<float>(random.Normal());
  return ToTensor(dtype, values, shape);
}

// Key times, and their end as query times (or the other way round when there
// are more queries).
absl::Status SetTimes(const Work& work, absl::Span<const int64_t> times,
                      v1::AttendRequest* request) {
  auto query =
      MakeTimeAxis(times.last(work.queries), v1::TICK_UNIT_NANOSECONDS);
  auto key = MakeTimeAxis(times.last(work.keys), v1::TICK_UNIT_NANOSECONDS);
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
    absl::Status status =
        SetTimes(work,
                 RowTimes(work.times, work.mean_gap_ns,
                          std::max(work.queries, work.keys), random),
                 &request);
    if (!status.ok()) return status;
  }
  SetChoices(work, &request);
  return request;
}

// Lengths from (1 - ragged) of all rows to all, item by item.
void SetLengths(const Work& work, int64_t rows,
                google::protobuf::RepeatedField<int64_t>* lengths) {
  for (int64_t item = 0; item < work.batch; ++item) {
    const double share =
        work.batch > 1
            ? static_cast<double>(item) / static_cast<double>(work.batch - 1)
            : 0;
    lengths->Add(
        std::max<int64_t>(1, std::llround(static_cast<double>(rows) *
                                          (1 - work.ragged * (1 - share)))));
  }
}

absl::StatusOr<v1::AttendRequest> MakeWindow(const Work& work,
                                             absl::Span<const int64_t> times,
                                             absl::Span<const double> values,
                                             Random& random) {
  Work shapes = work;
  shapes.times = TimeKind::kNone;
  absl::StatusOr<v1::AttendRequest> request = MakeRequest(shapes, random);
  if (!request.ok()) return request;
  absl::Status status = SetTimes(work, times, &*request);
  if (!status.ok()) return status;
  double mean = 0;
  for (double value : values) {
    mean += value / static_cast<double>(values.size());
  }
  std::vector<float> rows;
  for (int64_t i = 0; i < work.batch * work.kv_heads; ++i) {
    for (double value : values) {
      rows.insert(rows.end(), work.value_dim, static_cast<float>(value - mean));
    }
  }
  absl::StatusOr<v1::Tensor> tensor = ToTensor(
      work.dtype, rows, {work.batch, work.kv_heads, work.keys, work.value_dim});
  if (!tensor.ok()) return tensor.status();
  *request->mutable_value() = *std::move(tensor);
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
  if (work.compute == v1::COMPUTE_PRECISION_BF16) {
    absl::StrAppend(&text, " in bf16");
  }
  if (!work.encoding.empty()) absl::StrAppend(&text, " ", work.encoding);
  if (work.kind == v1::ATTENTION_KIND_LINEAR) absl::StrAppend(&text, " linear");
  if (work.causal != v1::CAUSALITY_UNSPECIFIED) {
    absl::StrAppend(&text, " causal");
  }
  if (work.past_ns || work.future_ns || work.past_keys) {
    absl::StrAppend(&text, " windowed");
  }
  if (work.ragged > 0) absl::StrAppend(&text, " ragged");
  if (work.priority != 0) absl::StrAppend(&text, " priority ", work.priority);
  return text;
}

void SetChoices(const Work& work, v1::AttendRequest* request) {
  if (!work.encoding.empty()) request->set_encoding(work.encoding);
  request->set_compute(work.compute);
  if (work.kind == v1::ATTENTION_KIND_LINEAR) {
    request->set_kind(work.kind);
    if (work.linear.ByteSizeLong() > 0) {
      *request->mutable_linear() = work.linear;
    }
  }
  v1::Mask mask;
  mask.set_causal(work.causal);
  mask.set_strict(work.strict);
  if (work.past_ns) mask.set_past_ticks(*work.past_ns);
  if (work.future_ns) mask.set_future_ticks(*work.future_ns);
  if (work.past_keys) mask.set_past_keys(*work.past_keys);
  if (work.ragged > 0) {
    SetLengths(work, work.queries, mask.mutable_query_lengths());
    SetLengths(work, work.keys, mask.mutable_key_lengths());
  }
  if (mask.ByteSizeLong() > 0) *request->mutable_mask() = mask;
  request->set_priority(work.priority);
  for (v1::Output output : work.outputs) request->add_outputs(output);
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
  // The series end 146 years before int64 nanoseconds do, and 346 after they
  // begin.
  if (work.mean_gap_ns < 0 ||
      LongestSpanNs(work.times, work.mean_gap_ns,
                    std::max(work.queries, work.keys)) > 9e18) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--gap ", DurationText(static_cast<double>(work.mean_gap_ns)),
        ": expected at least 0, and less than 140 years for all rows"));
  }
  if ((work.past_ns || work.future_ns) && work.times == TimeKind::kNone) {
    return absl::InvalidArgumentError(
        "--past, --future: expected --times; rows without them have no clock");
  }
  if (work.past_keys.value_or(0) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--past-keys ", *work.past_keys, ": expected at least 0"));
  }
  if (!(work.ragged >= 0 && work.ragged < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ragged ", work.ragged, ": expected 0 to below 1"));
  }
  if (work.priority < -10 || work.priority > 10) {
    return absl::InvalidArgumentError(
        absl::StrCat("--priority ", work.priority, ": expected -10 to 10"));
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

double RequestBytes(const Work& work) {
  const auto rows = [&](int64_t heads, int64_t rows, int64_t columns) {
    return static_cast<double>(work.batch) * static_cast<double>(heads) *
           static_cast<double>(rows) * static_cast<double>(columns);
  };
  const double elements = rows(work.heads, work.queries, work.dim) +
                          rows(work.kv_heads, work.keys, work.dim) +
                          rows(work.kv_heads, work.keys, work.value_dim);
  const double times =
      work.times == TimeKind::kNone
          ? 0
          : static_cast<double>(work.queries) + static_cast<double>(work.keys);
  return (work.dtype == v1::DTYPE_F32 ? 4 : 2) * elements + 8 * times;
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

absl::StatusOr<std::vector<v1::AttendRequest>> MakeSeriesRequests(
    const Work& work, const Series& series) {
  if (absl::Status bad = CheckWork(work); !bad.ok()) return bad;
  std::vector<int64_t> times;
  std::vector<double> values;
  for (size_t i = 0; i < series.value.size(); ++i) {
    if (std::isnan(series.value[i])) continue;
    times.push_back(series.time_ns[i]);
    values.push_back(series.value[i]);
  }
  const auto observations = static_cast<int64_t>(times.size());
  if (work.keys > observations || work.queries > work.keys) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--series: ", observations, " observations, expected at least --keys ",
        work.keys, ", and --queries ", work.queries, " at most as many"));
  }
  Random random(work.seed);
  std::vector<v1::AttendRequest> requests;
  for (int64_t i = 0; i < work.distinct; ++i) {
    const int64_t first =
        work.distinct > 1 ? (observations - work.keys) * i / (work.distinct - 1)
                          : 0;
    absl::StatusOr<v1::AttendRequest> request = MakeWindow(
        work, absl::MakeConstSpan(times).subspan(first, work.keys),
        absl::MakeConstSpan(values).subspan(first, work.keys), random);
    if (!request.ok()) return request.status();
    request->set_request_id(absl::StrCat("load ", i));
    requests.push_back(*std::move(request));
  }
  return requests;
}

}  // namespace attnd::client
