// Rows of q and k on their way to products: change of basis, turns, scale.
#ifndef ATTND_KERNELS_ROTATION_H_
#define ATTND_KERNELS_ROTATION_H_

#include <cstdint>

#include "kernels/encoder.h"

namespace attnd {

// Rows asked for in advance: encoding one takes a tenth of a memory access.
inline constexpr int64_t kEncodedRowsAhead = 6;

// Row of q or k in encoded order: dst = scale * R (B^T src), with the change of
// basis or order of the head (`query` chooses which), its channel scale, and
// the turns of a phase row (phase_rows.h; null: none). Fills [dim, padded) with
// zeros. A row with a non-finite element becomes all NaN, so that no product
// can turn it into a finite logit. src [dim], dst [padded] and scratch [padded]
// are 64-byte aligned and distinct. head may be null: identity.
void EncodeRow(const HeadEncoder* head, bool query, const float* phases,
               float scale, const float* src, int64_t dim, int64_t padded,
               float* scratch, float* dst);

// The same for `rows` rows of an identity head that follow each other, dim
// floats each: dst [rows, padded] = scale * src.
void EncodePlainRows(const float* src, int64_t rows, int64_t dim,
                     int64_t padded, float scale, float* dst);

// EncodeRow of rows at a fixed stride, with phase rows that follow each other:
// what only turns halves, or changes basis, is done for all rows at once.
struct RowBatch {
  const HeadEncoder* head = nullptr;  // not null
  bool query = false;
  const float* src = nullptr;  // [dim] at each `stride`; any alignment
  int64_t stride = 0;
  const float* phases = nullptr;  // [rows, phase_floats]; null: no rotation
  int64_t rows = 0, dim = 0, padded = 0;
  float scale = 1;
  float* scratch = nullptr;  // [rows, padded]
  float* dst = nullptr;      // [rows, padded]
};
void EncodeRows(const RowBatch& batch);

// Whether each of `count` floats is finite.
bool FiniteValues(const float* values, int64_t count);

}  // namespace attnd

#endif  // ATTND_KERNELS_ROTATION_H_
