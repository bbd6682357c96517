// Random attention problems: every size, mask, encoding, layout and kind of
// time that the kernels serve, all from one seed.
#ifndef ATTND_TESTS_KERNELS_RANDOM_PROBLEM_H_
#define ATTND_TESTS_KERNELS_RANDOM_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

struct RandomLimits {
  // Pairs of a query row and a key, over batch and heads.
  int64_t pairs = 200'000;
  int64_t max_rows = 600;
  int64_t max_dim = 130;
};

// A problem that Plan::Make takes.
ProblemSpec RandomProblem(uint64_t seed, const RandomLimits& limits = {});

// The same with everything else that there is: causality by index, windows in
// keys, prefix, ranges of time, packed items, sinks, softcap, value masks, a
// dtype per tensor.
ProblemSpec RandomMaskedProblem(uint64_t seed, const RandomLimits& limits = {});

// Up to three ranges of the keys' times, which must stand already.
std::vector<TimeRange> RandomRanges(Random& random, const ProblemSpec& spec);

// Random times of `kind` for all rows, irregular and with ties. Ticks are ns
// within about `span` units of 1 s from an epoch; reals are seconds.
void SetRandomTimes(Random& random, TimeAxis::Kind kind, bool per_item,
                    double span_seconds, ProblemSpec& spec);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_RANDOM_PROBLEM_H_
