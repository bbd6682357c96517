// The 16-bit element types as numbers: bf16, the upper half of a binary32, and
// f16, IEEE 754 binary16.
#ifndef ATTND_KERNELS_FLOAT16_H_
#define ATTND_KERNELS_FLOAT16_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace attnd {

// The element at `bytes`, of any dtype and alignment, exactly.
float LoadElement(DType dtype, const char* bytes);

// `count` 16-bit elements at `bytes`, any alignment, exactly.
void FloatsFromHalves(DType dtype, const char* bytes, int64_t count,
                      float* out);

// Rounded to the nearest, ties to even; beyond the largest finite number to
// infinity; NaN stays NaN. Subnormals of f16 are kept. In place is not allowed.
void HalvesFromFloats(DType dtype, const float* values, int64_t count,
                      uint16_t* out);

}  // namespace attnd

#endif  // ATTND_KERNELS_FLOAT16_H_
