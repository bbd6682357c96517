// Vector loops of the encoding: exact phases to cos/sin, rotation of rows, and
// the packing of keys.
#ifndef ATTND_KERNELS_ROTATION_H_
#define ATTND_KERNELS_ROTATION_H_

#include <cstdint>

#include "kernels/encoder.h"

namespace attnd {

// |cos - exact| and |sin - exact| of a phase table.
inline constexpr double kTrigError = 2e-7;

// Where a row stands along one source of phases.
struct PhasePoint {
  enum class Kind : uint8_t {
    kTicks,  // int64 ticks, exact
    kReal,   // a real number of ticks, exact from the double's value
    kClock,  // a learned clock in units; turns in double
    kHf      // float32(position) * float32(frequency), Hugging Face parity
  };
  Kind kind = Kind::kTicks;
  int64_t ticks = 0;
  double real = 0;  // kHf: in units, not rebased
};

// Upper 64 bits of the phase of the plane at `entry` of the phase table, summed
// over the head's sources, in turns; points as for PhaseRow.
uint64_t PhaseWordOf(const HeadEncoder& head, const PhasePoint* points,
                     int entry);

// Phase rows of `rows` rows: cosine[p], then sine[p] of plane p's phase, the
// sum over the head's sources, with points[r * sources + i] belonging to row r
// and head.frequencies()[i]. [rows, head.phase_floats()] floats, 64-byte
// aligned, of which matrices of free turns are left as they are. Error <=
// kTrigError beyond that of the phase.
void PhaseRows(const HeadEncoder& head, const PhasePoint* points, int64_t rows,
               float* phases);

// Row of q or k in encoded order: dst = scale * R (B^T src), with the change of
// basis or order of the head (`query` chooses which), its channel scale, and
// the turns of a phase row (null: none), in which matrices of free turns follow
// the sines. Fills [dim, padded) with zeros. A row with a non-finite element
// becomes all NaN, so that no product can turn it into a finite logit. src
// [dim], dst [padded] and scratch [padded] are 64-byte aligned and distinct.
// head may be null: identity.
void EncodeRow(const HeadEncoder* head, bool query, const float* cosine,
               const float* sine, float scale, const float* src, int64_t dim,
               int64_t padded, float* scratch, float* dst);

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

// Transposes `count` <= 64 encoded rows [count, padded] into one packed block
// [padded, 64] (gemm.h); zeros in the other columns.
void PackBlock(const float* rows, int64_t count, int64_t padded, float* block);

}  // namespace attnd

#endif  // ATTND_KERNELS_ROTATION_H_
