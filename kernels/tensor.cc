#include "kernels/tensor.h"

#include <hwy/cache_control.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/float16.h"

namespace attnd {
namespace {

constexpr size_t kAlignment = 64;

std::string ShapeText(const Shape4& s) {
  return absl::StrCat(s.batch, "x", s.heads, "x", s.rows, "x", s.cols);
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
  FloatsFromHalves(dtype_, src, shape_.cols, dst);
}

const float* TensorRef::FloatRow(int64_t batch, int64_t head,
                                 int64_t row) const {
  const char* src = Row(batch, head, row);
  const bool aligned = reinterpret_cast<uintptr_t>(src) % alignof(float) == 0;
  return dtype_ == DType::kF32 && aligned ? reinterpret_cast<const float*>(src)
                                          : nullptr;
}

void TensorRef::PrefetchRow(int64_t batch, int64_t head, int64_t row) const {
  const char* src = Row(batch, head, row);
  const int64_t bytes = shape_.cols * ElementBytes(dtype_);
  for (int64_t b = 0; b < bytes; b += kAlignment) hwy::Prefetch(src + b);
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
