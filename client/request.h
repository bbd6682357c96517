// Builds the arrays of a request from plain numbers, and reads those of an
// answer.
//
//   v1::AttendRequest request;
//   absl::StatusOr<v1::Tensor> query = MakeTensor(values, {1, 8, 512, 64});
//   if (!query.ok()) return query.status();
//   *request.mutable_query() = *std::move(query);
//
// Everything is copied: spans need to live only during the call. Functions are
// pure and thread-safe. InvalidArgument says which size was expected.
#ifndef ATTND_CLIENT_REQUEST_H_
#define ATTND_CLIENT_REQUEST_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attnd/v1/tensor.pb.h"

namespace attnd::client {

// An f32 tensor of `shape` from product(shape) values in row-major order.
//
//   shape    each extent >= 0, in the order that `layout` names: [B,H,L,D] for
//            BHLD, [B,L,H,D] for BLHD; other axis counts where the field's
//            comment in attention.proto asks for them
//
// double values are rounded to f32, once each.
absl::StatusOr<v1::Tensor> MakeTensor(absl::Span<const float> values,
                                      absl::Span<const int64_t> shape,
                                      v1::Layout layout = v1::LAYOUT_BHLD);
absl::StatusOr<v1::Tensor> MakeTensor(absl::Span<const double> values,
                                      absl::Span<const int64_t> shape,
                                      v1::Layout layout = v1::LAYOUT_BHLD);

// A bf16 tensor; every value is rounded to the nearest (ties to even).
absl::StatusOr<v1::Tensor> MakeBf16Tensor(absl::Span<const float> values,
                                          absl::Span<const int64_t> shape,
                                          v1::Layout layout = v1::LAYOUT_BHLD);

// An f16 tensor, rounded alike; values from 65520 on become infinite.
absl::StatusOr<v1::Tensor> MakeF16Tensor(absl::Span<const float> values,
                                         absl::Span<const int64_t> shape,
                                         v1::Layout layout = v1::LAYOUT_BHLD);

// Exact times: int64 counts of `unit` from any epoch.
//
//   shape    [L] (all batch items alike), [B,L], or with a last axis of
//            `coordinates` when that is more than 1; empty = [ticks.size()]
//   unit     nanoseconds to seconds, or positions; UNSPECIFIED is refused
absl::StatusOr<v1::TimeAxis> MakeTimeAxis(absl::Span<const int64_t> ticks,
                                          v1::TickUnit unit,
                                          absl::Span<const int64_t> shape = {},
                                          int coordinates = 1);

// Times in seconds (or positions) as f64. Epoch seconds resolve 238 ns only:
// prefer ticks where they exist.
absl::StatusOr<v1::TimeAxis> MakeTimeAxis(
    absl::Span<const double> times, v1::TickUnit unit = v1::TICK_UNIT_SECONDS,
    absl::Span<const int64_t> shape = {}, int coordinates = 1);

// The values of a tensor of any element type as f32 (bf16 and f16 convert
// exactly), in its own order. InvalidArgument if data and shape disagree.
absl::StatusOr<std::vector<float>> ToFloats(const v1::Tensor& tensor);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_REQUEST_H_
