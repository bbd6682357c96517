#include "proto/wire.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attnd::wire {

int64_t ElementBytes(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return 4;
    case v1::DTYPE_BF16:
    case v1::DTYPE_F16:
      return 2;
    default:
      return 0;
  }
}

std::optional<int64_t> CheckedMultiply(int64_t a, int64_t b) {
  int64_t product;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return {};
  return product;
}

std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t sum;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum)) return {};
  return sum;
}

std::optional<int64_t> ElementCount(absl::Span<const int64_t> shape) {
  int64_t nonzero = 1;
  bool empty = false;
  for (int64_t extent : shape) {
    if (extent == 0) {
      empty = true;
      continue;
    }
    const std::optional<int64_t> product = CheckedMultiply(nonzero, extent);
    if (!product) return {};
    nonzero = *product;
  }
  return empty ? 0 : nonzero;
}

std::optional<int64_t> TensorBytes(v1::DType dtype,
                                   absl::Span<const int64_t> shape) {
  const int64_t element = ElementBytes(dtype);
  const std::optional<int64_t> count = ElementCount(shape);
  if (element == 0 || !count) return {};
  return CheckedMultiply(*count, element);
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

std::string DTypeText(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return "f32";
    case v1::DTYPE_BF16:
      return "bf16";
    case v1::DTYPE_F16:
      return "f16";
    default:
      return absl::StrCat("dtype ", static_cast<int>(dtype));
  }
}

}  // namespace attnd::wire
