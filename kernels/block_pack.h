// Rows of floats as the packed second operands of products, in f32 and bf16.
#ifndef ATTND_KERNELS_BLOCK_PACK_H_
#define ATTND_KERNELS_BLOCK_PACK_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace attnd {

// Owned 16-bit words, 64-byte aligned, uninitialised; as AlignedBuffer.
class HalfBuffer {
 public:
  uint16_t* Reserve(int64_t count);
  uint16_t* data() const { return reinterpret_cast<uint16_t*>(floats_.data()); }
  int64_t capacity() const { return 2 * floats_.capacity(); }

 private:
  AlignedBuffer floats_;
};

// Transposes `count` <= 64 encoded rows [count, padded] into one packed block
// [padded, 64] (gemm.h); zeros in the other columns.
void PackBlock(const float* rows, int64_t count, int64_t padded, float* block);

// One block of the second operand of a bf16 product (gemm.h): `depth` rows of
// `columns` <= 64 floats, `stride` floats apart, rounded to the nearest (ties
// to even) and interleaved in pairs; zeros up to Bf16Depth(depth) rows and 64
// columns. NaN stays NaN. `out` takes Bf16Depth(depth) * 64 words.
void PackBf16(const float* rows, int64_t stride, int64_t depth, int64_t columns,
              uint16_t* out);

}  // namespace attnd

#endif  // ATTND_KERNELS_BLOCK_PACK_H_
