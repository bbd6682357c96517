// Random encodings, with times and parameters from their mild ends to their
// extremes; random_parts.h says what is drawn.
#ifndef ATTND_TESTS_KERNELS_RANDOM_ENCODING_H_
#define ATTND_TESTS_KERNELS_RANDOM_ENCODING_H_

#include <string>

#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

// Replaces encoding, times and units of the problem by ones drawn from its
// seed, and gives it the clocks and gates that the encoding needs. Spans run
// from a nanosecond to a century, rates times the span from nothing to a
// million.
void SetRandomEncoding(ProblemSpec& spec);

// Judge of answers with and without scores, with what the encoding may take of
// the contract (Slack, the condition number of its generators, ten times for
// several biases over the lag), and "" for a problem that Plan::Make refuses,
// because the encoding is not defined for it: lags below 0 of a one-sided one,
// a clock that runs backwards, a growth beyond floats. `defined` tells whether
// it took it.
std::string JudgeIfDefined(const ProblemSpec& spec, double slack,
                           bool* defined = nullptr);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_RANDOM_ENCODING_H_
