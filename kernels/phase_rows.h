// Exact phases of rows to cosines and sines.
#ifndef ATTND_KERNELS_PHASE_ROWS_H_
#define ATTND_KERNELS_PHASE_ROWS_H_

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
    kClock,  // a learned clock, a float, in units (ClockTurns)
    kHf      // float32(position) * float32(frequency), Hugging Face parity
  };
  Kind kind = Kind::kTicks;
  int64_t ticks = 0;
  double real = 0;  // kHf: in units, not rebased
};

// Upper 64 bits of the phase of the plane at `entry` of the phase table, summed
// over the head's sources, in turns; points as for PhaseRows.
uint64_t PhaseWordOf(const HeadEncoder& head, const PhasePoint* points,
                     int entry);

// Phase rows of `rows` rows: cosine[p], then sine[p] of plane p's phase, the
// sum over the head's sources, with points[r * sources + i] belonging to row r
// and head.frequencies()[i]. [rows, head.phase_floats()] floats, 64-byte
// aligned, of which matrices of free turns are left as they are. Error <=
// kTrigError beyond that of the phase.
void PhaseRows(const HeadEncoder& head, const PhasePoint* points, int64_t rows,
               float* phases);

}  // namespace attnd

#endif  // ATTND_KERNELS_PHASE_ROWS_H_
