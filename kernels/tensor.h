// Borrowed views over attention tensors as they arrive: dense bytes, a dtype, a
// shape and an order of the two middle axes.
#ifndef ATTND_KERNELS_TENSOR_H_
#define ATTND_KERNELS_TENSOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace attnd {

enum class DType : uint8_t { kF32, kBF16, kF16 };

// Order of the two middle axes in memory; shapes are always written B,H,L,D.
enum class Layout : uint8_t { kBHLD, kBLHD };

struct Shape4 {
  int64_t batch = 0, heads = 0, rows = 0, cols = 0;
  friend bool operator==(const Shape4&, const Shape4&) = default;
};

// 4 or 2 bytes.
int64_t ElementBytes(DType dtype);

// A dense little-endian tensor that somebody else owns. Any alignment. Copies
// are cheap; thread-safe for reading as long as the bytes live.
class TensorRef {
 public:
  // An empty tensor of shape 0,0,0,0.
  TensorRef() = default;

  // INVALID_ARGUMENT unless every extent is >= 0 and `bytes` holds exactly
  // product(shape) elements; overflow of the product is refused.
  static absl::StatusOr<TensorRef> Make(absl::Span<const char> bytes,
                                        DType dtype, Layout layout,
                                        const Shape4& shape);

  const Shape4& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Layout layout() const { return layout_; }
  // Number of a row among all, in the layout.
  int64_t RowNumber(int64_t batch, int64_t head, int64_t row) const {
    return layout_ == Layout::kBHLD
               ? (batch * shape_.heads + head) * shape_.rows + row
               : (batch * shape_.rows + row) * shape_.heads + head;
  }
  absl::Span<const char> bytes() const { return bytes_; }

  // First byte of row `row` of (batch, head); cols elements follow.
  const char* Row(int64_t batch, int64_t head, int64_t row) const;
  // Bytes from one row of a head to the next.
  int64_t row_stride_bytes() const { return row_stride_; }

  // Row converted to f32; dst holds cols floats.
  void LoadRow(int64_t batch, int64_t head, int64_t row, float* dst) const;
  // The row as it lies in memory if it is f32 and aligned to 4 bytes, else
  // null.
  const float* FloatRow(int64_t batch, int64_t head, int64_t row) const;
  // Asks the processor for a row that is needed soon.
  void PrefetchRow(int64_t batch, int64_t head, int64_t row) const;
  // Whether rows of a head follow each other without gaps.
  bool rows_adjacent() const {
    return row_stride_ == shape_.cols * ElementBytes(dtype_);
  }

 private:
  absl::Span<const char> bytes_;
  DType dtype_ = DType::kF32;
  Layout layout_ = Layout::kBHLD;
  Shape4 shape_;
  int64_t row_stride_ = 0, head_stride_ = 0, batch_stride_ = 0;
};

// Owned floats, 64-byte aligned, uninitialised. Grows, never shrinks; growing
// loses the contents.
class AlignedBuffer {
 public:
  // At least `count` floats; the pointer stays valid until the next call with a
  // larger count. Throws std::bad_alloc when memory is out.
  float* Reserve(int64_t count);
  float* data() const { return data_.get(); }
  int64_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(float* p) const;
  };
  std::unique_ptr<float, Free> data_;
  int64_t capacity_ = 0;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_TENSOR_H_
