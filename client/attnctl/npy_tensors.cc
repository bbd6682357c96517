#include "client/attnctl/npy_tensors.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/request.h"
#include "proto/wire.h"

namespace attnd::client {
namespace {

template <typename T>
std::vector<T> Elements(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

absl::StatusOr<v1::TickUnit> UnitOf(const std::string& name) {
  const std::pair<const char*, v1::TickUnit> units[] = {
      {"ns", v1::TICK_UNIT_NANOSECONDS},
      {"us", v1::TICK_UNIT_MICROSECONDS},
      {"ms", v1::TICK_UNIT_MILLISECONDS},
      {"s", v1::TICK_UNIT_SECONDS},
      {"positions", v1::TICK_UNIT_POSITIONS}};
  for (const auto& [known, unit] : units) {
    if (name == known) return unit;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--unit '", name,
                   "', expected what one tick lasts: ns us ms s or "
                   "positions (there is no default)"));
}

}  // namespace

absl::StatusOr<v1::Tensor> TensorFromNpy(NpyArray array, v1::Layout layout) {
  const size_t axes = array.shape.size();
  if (axes < 2 || axes > 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", wire::ShapeText(array.shape),
                     ", expected 4 axes [B,H,L,D], or [H,L,D] or [L,D]"));
  }
  // A missing head axis stands before L or after it.
  const size_t heads_at = layout == v1::LAYOUT_BLHD ? 1 : 0;
  if (axes == 2) array.shape.insert(array.shape.begin() + heads_at, 1);
  if (axes < 4) array.shape.insert(array.shape.begin(), 1);
  v1::Tensor tensor;
  switch (array.type) {
    case NpyType::kF8:
      return MakeTensor(Elements<double>(array.data), array.shape, layout);
    case NpyType::kF4:
      tensor.set_dtype(v1::DTYPE_F32);
      break;
    case NpyType::kBf16:
      tensor.set_dtype(v1::DTYPE_BF16);
      break;
    case NpyType::kF2:
      tensor.set_dtype(v1::DTYPE_F16);
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("element type ", NpyTypeText(array),
                       ", expected float32, float64, float16 or bfloat16"));
  }
  tensor.set_layout(layout);
  tensor.mutable_shape()->Add(array.shape.begin(), array.shape.end());
  tensor.set_data(std::move(array.data));
  return tensor;
}

absl::StatusOr<v1::TimeAxis> TimeAxisFromNpy(const NpyArray& array,
                                             const std::string& unit) {
  if (array.type == NpyType::kDatetime && !unit.empty() &&
      unit != array.time_unit) {
    return absl::InvalidArgumentError(
        absl::StrCat("element type ", NpyTypeText(array), ", but --unit ", unit,
                     "; leave --unit out"));
  }
  const absl::StatusOr<v1::TickUnit> ticks_of =
      UnitOf(array.type == NpyType::kDatetime ? array.time_unit : unit);
  if (!ticks_of.ok()) return ticks_of.status();
  switch (array.type) {
    case NpyType::kI8:
      return MakeTimeAxis(Elements<int64_t>(array.data), *ticks_of,
                          array.shape);
    case NpyType::kI4: {
      const std::vector<int32_t> narrow = Elements<int32_t>(array.data);
      return MakeTimeAxis(std::vector<int64_t>(narrow.begin(), narrow.end()),
                          *ticks_of, array.shape);
    }
    case NpyType::kDatetime: {
      const std::vector<int64_t> ticks = Elements<int64_t>(array.data);
      for (size_t i = 0; i < ticks.size(); ++i) {
        if (ticks[i] == std::numeric_limits<int64_t>::min()) {
          return absl::InvalidArgumentError(
              absl::StrCat("element ", i, " is NaT (not a time)"));
        }
      }
      return MakeTimeAxis(ticks, *ticks_of, array.shape);
    }
    case NpyType::kF8:
      return MakeTimeAxis(Elements<double>(array.data), *ticks_of, array.shape);
    case NpyType::kF4: {
      const std::vector<float> narrow = Elements<float>(array.data);
      return MakeTimeAxis(std::vector<double>(narrow.begin(), narrow.end()),
                          *ticks_of, array.shape);
    }
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("element type ", NpyTypeText(array),
                       ", expected int64, datetime64 or float64"));
  }
}

absl::StatusOr<NpyArray> NpyFromTensor(const v1::Tensor& tensor) {
  NpyArray array;
  switch (tensor.dtype()) {
    case v1::DTYPE_F32:
      array.type = NpyType::kF4;
      break;
    case v1::DTYPE_BF16:
      array.type = NpyType::kBf16;
      break;
    case v1::DTYPE_F16:
      array.type = NpyType::kF2;
      break;
    default:
      return absl::InternalError(
          absl::StrCat("the answer holds ", wire::DTypeText(tensor.dtype())));
  }
  array.shape.assign(tensor.shape().begin(), tensor.shape().end());
  array.data = tensor.data();
  return array;
}

}  // namespace attnd::client
