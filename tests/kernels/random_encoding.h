// Random encodings, with times and parameters from their mild ends to their
// extremes; random_parts.h says what is drawn.
#ifndef ATTND_TESTS_KERNELS_RANDOM_ENCODING_H_
#define ATTND_TESTS_KERNELS_RANDOM_ENCODING_H_

#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

// Replaces encoding, times and units of the problem by ones drawn from its
// seed, and gives it the clocks and gates that the encoding needs; asks some
// for bf16, and some to leave out what weighs little. Spans run from a
// nanosecond to a century, rates times the span from nothing to a million.
// Masks stay, but that encodings defined for lags >= 0 alone are given no
// others. Plan::Make takes what comes out.
void SetRandomEncoding(ProblemSpec& spec);

// The encoding alone of the same, of blocks that the linear kind serves.
void SetRandomCarriedEncoding(ProblemSpec& spec);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_RANDOM_ENCODING_H_
