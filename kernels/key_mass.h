// The weight that each key received, summed over queries by many units at once.
//
// Sums are 64-bit integers of a unit that depends on the problem alone: they
// come out the same in whichever order, and on however many threads, units add
// to them.
#ifndef ATTND_KERNELS_KEY_MASS_H_
#define ATTND_KERNELS_KEY_MASS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace attnd {

// Adds `weight` >= 0, at most the number of rows summed, to the sum; NaN marks
// it for good. `query_rows` is that of the problem. Thread-safe.
void AddKeyMass(float weight, int64_t query_rows, uint64_t& sum);

// The sums as numbers, each weight within half of 2^-62 * query_rows * 2.
void ReadKeyMass(absl::Span<const uint64_t> sums, int64_t query_rows,
                 absl::Span<float> mass);

}  // namespace attnd

#endif  // ATTND_KERNELS_KEY_MASS_H_
