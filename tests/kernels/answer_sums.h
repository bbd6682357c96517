// Judges what needs more than one weight: entropy, the weight that keys
// received, the largest weights.
#ifndef ATTND_TESTS_KERNELS_ANSWER_SUMS_H_
#define ATTND_TESTS_KERNELS_ANSWER_SUMS_H_

#include <cstdint>
#include <string>

#include "tests/kernels/answer.h"

namespace attnd::testing {

// "" when entropy, key mass and the `top` largest weights of an answer, which
// must have them all, keep the contract of f32 (`slack` times it) against the
// weights of the reference, else the first that does not.
std::string CompareSums(const ProblemSpec& spec, const Answer& answer,
                        const ReferenceAnswer& reference, int64_t top,
                        double slack = 1);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_ANSWER_SUMS_H_
