// Vector loops of the encoding: exact phases to cos/sin, rotation of rows, and
// the packing of keys.
#ifndef ATTND_KERNELS_ROTATION_H_
#define ATTND_KERNELS_ROTATION_H_

#include <cstdint>

#include "kernels/encoder.h"

namespace attnd {

// |cos - exact| and |sin - exact| of a phase table.
inline constexpr double kTrigError = 2e-7;

// Floats from one row of a phase table to the next: planes rounded up to 16.
inline constexpr int64_t TableStride(int64_t planes) {
  return (planes + 15) / 16 * 16;
}

// cosine[p], sine[p] of plane p's phase at `ticks` [TableStride(planes) floats
// each, 64-byte aligned]. Exact phase, error <= kTrigError after it.
void PhaseRow(const Encoder& encoder, int64_t ticks, float* cosine,
              float* sine);

// The same at a real number of ticks.
void PhaseRow(const Encoder& encoder, double ticks, float* cosine, float* sine);

// dst = scale * R src: rotates every plane of the encoder by its phase, passes
// other channels through and fills [dim, padded) with zeros. A row with a
// non-finite element becomes all NaN, so that no product can turn it into a
// finite logit. src [dim] and dst [padded] are 64-byte aligned and distinct;
// cosine/sine may be null when the encoder has no planes.
void EncodeRow(const Encoder* encoder, const float* cosine, const float* sine,
               float scale, const float* src, int64_t dim, int64_t padded,
               float* dst);

// Transposes 64 encoded rows [64, padded] into one packed block [padded, 64]
// (gemm.h).
void PackBlock(const float* rows, int64_t padded, float* block);

}  // namespace attnd

#endif  // ATTND_KERNELS_ROTATION_H_
