#include "client/request.h"

#include <bit>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/float16.h"
#include "proto/wire.h"

namespace attnd::client {
namespace {

// The wire is little-endian and values are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);

template <typename T>
std::string BytesOf(absl::Span<const T> values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

absl::Status CheckCount(size_t values, absl::Span<const int64_t> shape) {
  const std::optional<int64_t> count = wire::ElementCount(shape);
  if (!count) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", wire::ShapeText(shape),
                     ": expected extents >= 0 whose product fits in int64"));
  }
  if (static_cast<uint64_t>(*count) != values) {
    return absl::InvalidArgumentError(absl::StrCat(values, " values, expected ",
                                                   *count, " for shape ",
                                                   wire::ShapeText(shape)));
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<v1::Tensor> Make(absl::Span<const T> values, v1::DType dtype,
                                absl::Span<const int64_t> shape,
                                v1::Layout layout) {
  if (absl::Status bad = CheckCount(values.size(), shape); !bad.ok()) {
    return bad;
  }
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.set_layout(layout);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.set_data(BytesOf(values));
  return tensor;
}

template <typename T>
absl::StatusOr<v1::TimeAxis> MakeAxis(absl::Span<const T> times,
                                      v1::TimeType type, v1::TickUnit unit,
                                      absl::Span<const int64_t> shape,
                                      int coordinates) {
  const int64_t size = static_cast<int64_t>(times.size());
  if (shape.empty()) shape = absl::MakeConstSpan(&size, 1);
  if (absl::Status bad = CheckCount(times.size(), shape); !bad.ok()) {
    return bad;
  }
  if (unit == v1::TICK_UNIT_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        "unit: unspecified, expected what one tick lasts (there is no "
        "default)");
  }
  v1::TimeAxis axis;
  axis.set_type(type);
  axis.mutable_shape()->Add(shape.begin(), shape.end());
  axis.set_coordinates(coordinates);
  axis.add_units(unit);
  axis.set_data(BytesOf(times));
  return axis;
}

template <typename T>
std::vector<T> Elements(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

absl::StatusOr<v1::Tensor> MakeTensor(absl::Span<const float> values,
                                      absl::Span<const int64_t> shape,
                                      v1::Layout layout) {
  return Make(values, v1::DTYPE_F32, shape, layout);
}

absl::StatusOr<v1::Tensor> MakeTensor(absl::Span<const double> values,
                                      absl::Span<const int64_t> shape,
                                      v1::Layout layout) {
  const std::vector<float> rounded(values.begin(), values.end());
  return Make(absl::MakeConstSpan(rounded), v1::DTYPE_F32, shape, layout);
}

absl::StatusOr<v1::Tensor> MakeBf16Tensor(absl::Span<const float> values,
                                          absl::Span<const int64_t> shape,
                                          v1::Layout layout) {
  std::vector<uint16_t> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    rounded[i] = Bf16FromFloat(values[i]);
  }
  return Make(absl::MakeConstSpan(rounded), v1::DTYPE_BF16, shape, layout);
}

absl::StatusOr<v1::Tensor> MakeF16Tensor(absl::Span<const float> values,
                                         absl::Span<const int64_t> shape,
                                         v1::Layout layout) {
  std::vector<uint16_t> rounded(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    rounded[i] = F16FromFloat(values[i]);
  }
  return Make(absl::MakeConstSpan(rounded), v1::DTYPE_F16, shape, layout);
}

absl::StatusOr<v1::TimeAxis> MakeTimeAxis(absl::Span<const int64_t> ticks,
                                          v1::TickUnit unit,
                                          absl::Span<const int64_t> shape,
                                          int coordinates) {
  return MakeAxis(ticks, v1::TIME_TYPE_INT64_TICKS, unit, shape, coordinates);
}

absl::StatusOr<v1::TimeAxis> MakeTimeAxis(absl::Span<const double> times,
                                          v1::TickUnit unit,
                                          absl::Span<const int64_t> shape,
                                          int coordinates) {
  if (unit != v1::TICK_UNIT_SECONDS && unit != v1::TICK_UNIT_POSITIONS) {
    return absl::InvalidArgumentError(
        "unit: f64 times are in seconds or positions; for other units give "
        "int64 ticks");
  }
  return MakeAxis(times, v1::TIME_TYPE_F64, unit, shape, coordinates);
}

absl::StatusOr<std::vector<float>> ToFloats(const v1::Tensor& tensor) {
  const std::optional<int64_t> bytes =
      wire::TensorBytes(tensor.dtype(), tensor.shape());
  if (!bytes || static_cast<uint64_t>(*bytes) != tensor.data().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        tensor.data().size(), " bytes, expected ",
        bytes ? absl::StrCat(*bytes) : "a valid shape and element type", " (",
        wire::DTypeText(tensor.dtype()), " ", wire::ShapeText(tensor.shape()),
        ")"));
  }
  if (tensor.dtype() == v1::DTYPE_F32) return Elements<float>(tensor.data());
  const bool bf16 = tensor.dtype() == v1::DTYPE_BF16;
  std::vector<float> values;
  values.reserve(tensor.data().size() / 2);
  for (uint16_t bits : Elements<uint16_t>(tensor.data())) {
    values.push_back(bf16 ? FloatFromBf16(bits) : FloatFromF16(bits));
  }
  return values;
}

}  // namespace attnd::client
