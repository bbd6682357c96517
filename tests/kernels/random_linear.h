// Random problems of the linear kind: its encodings, options, masks, pieces.
#ifndef ATTND_TESTS_KERNELS_RANDOM_LINEAR_H_
#define ATTND_TESTS_KERNELS_RANDOM_LINEAR_H_

#include <cstdint>
#include <string>

#include "tests/kernels/linear_answer.h"
#include "tests/kernels/random_problem.h"

namespace attnd::testing {

// A case that LinearPlan::Make takes. Small ones: the oracle multiplies
// matrices of the head dimension for every pair, and integrates held keys.
LinearCase RandomLinearCase(uint64_t seed,
                            RandomLimits limits = {.pairs = 1'500,
                                                   .max_rows = 150,
                                                   .max_dim = 12});

// Judge, with what the encoding may take of the contract besides `slack`.
std::string JudgeEncoded(const LinearCase& which, double slack);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_RANDOM_LINEAR_H_
