#include "kernels/tensor.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attnd {
namespace {

constexpr size_t kAlignment = 64;

std::string ShapeText(const Shape4& s) {
  return absl::StrCat(s.batch, "x", s.heads, "x", s.rows, "x", s.cols);
}

float HalfToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1Fu;
  const uint32_t mantissa = h & 0x3FFu;
  float magnitude;
  if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  } else {
    // Infinity and NaN keep an all-ones exponent.
    const uint32_t bits =
        ((exponent == 31 ? 255 : exponent + 112) << 23) | (mantissa << 13);
    std::memcpy(&magnitude, &bits, sizeof(magnitude));
  }
  uint32_t bits;
  std::memcpy(&bits, &magnitude, sizeof(bits));
  bits |= sign;
  std::memcpy(&magnitude, &bits, sizeof(bits));
  return magnitude;
}

float BFloatToFloat(uint16_t b) {
  const uint32_t bits = static_cast<uint32_t>(b) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace

int64_t ElementBytes(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

absl::StatusOr<TensorRef> TensorRef::Make(absl::Span<const char> bytes,
                                          DType dtype, Layout layout,
                                          const Shape4& shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t extent : {shape.batch, shape.heads, shape.rows, shape.cols}) {
    if (extent < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ShapeText(shape), ": negative extent"));
    }
    if (extent == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, extent, &count)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ShapeText(shape), ": size overflows int64"));
    }
  }
  int64_t expected;
  if (__builtin_mul_overflow(count, ElementBytes(dtype), &expected)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", ShapeText(shape), ": size overflows int64"));
  }
  if (empty) expected = 0;
  if (static_cast<int64_t>(bytes.size()) != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes, expected ", expected, " (",
                     ShapeText(shape), ")"));
  }
  TensorRef ref;
  ref.bytes_ = bytes;
  ref.dtype_ = dtype;
  ref.layout_ = layout;
  ref.shape_ = shape;
  if (!empty) {
    const int64_t row = shape.cols * ElementBytes(dtype);
    const bool heads_outer = layout == Layout::kBHLD;
    ref.row_stride_ = heads_outer ? row : row * shape.heads;
    ref.head_stride_ = heads_outer ? row * shape.rows : row;
    ref.batch_stride_ = row * shape.rows * shape.heads;
  }
  return ref;
}

const char* TensorRef::Row(int64_t batch, int64_t head, int64_t row) const {
  return bytes_.data() + batch * batch_stride_ + head * head_stride_ +
         row * row_stride_;
}

void TensorRef::LoadRow(int64_t batch, int64_t head, int64_t row,
                        float* dst) const {
  if (shape_.cols == 0) return;  // memcpy takes no null pointer
  const char* src = Row(batch, head, row);
  if (dtype_ == DType::kF32) {
    std::memcpy(dst, src, shape_.cols * sizeof(float));
    return;
  }
  for (int64_t c = 0; c < shape_.cols; ++c) {
    uint16_t half;
    std::memcpy(&half, src + 2 * c, sizeof(half));
    dst[c] = dtype_ == DType::kF16 ? HalfToFloat(half) : BFloatToFloat(half);
  }
}

const float* TensorRef::FloatRow(int64_t batch, int64_t head,
                                 int64_t row) const {
  const char* src = Row(batch, head, row);
  const bool aligned = reinterpret_cast<uintptr_t>(src) % alignof(float) == 0;
  return dtype_ == DType::kF32 && aligned ? reinterpret_cast<const float*>(src)
                                          : nullptr;
}

float* AlignedBuffer::Reserve(int64_t count) {
  if (count <= capacity_) return data_.get();
  data_.reset();
  capacity_ = 0;
  data_.reset(static_cast<float*>(
      ::operator new (static_cast<size_t>(count) * sizeof(float),
                      std::align_val_t{kAlignment})));
  capacity_ = count;
  return data_.get();
}

void AlignedBuffer::Free::operator()(float* p) const {
  ::operator delete (p, std::align_val_t{kAlignment});
}

}  // namespace attnd
