// Judges problems under any encoding.
#ifndef ATTND_TESTS_KERNELS_ENCODED_JUDGE_H_
#define ATTND_TESTS_KERNELS_ENCODED_JUDGE_H_

#include <string>

#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

// "" when every way to the answer keeps the contract: with scores and without,
// with entropy, weights that keys received and the largest weights, and with
// tiles left out where the problem tolerates that. Else what did not, or why
// the problem was refused. `slack` times the contract, and what the encoding
// may take of it: Slack, the condition number of its generators. `lost_mass`
// (may be null) is the bound on what was left out.
std::string JudgeEncoded(const ProblemSpec& spec, double slack,
                         double* lost_mass = nullptr);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_ENCODED_JUDGE_H_
