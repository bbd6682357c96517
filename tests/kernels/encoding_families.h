// Every family of encodings, with the numbers of a head of 16 channels, and
// problems on irregular times for them.
#ifndef ATTND_TESTS_KERNELS_ENCODING_FAMILIES_H_
#define ATTND_TESTS_KERNELS_ENCODING_FAMILIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

inline constexpr int64_t kSecond = 1'000'000'000;

// In seconds.
struct Family {
  std::string name;
  EncodingSpec spec;
  // What the request must bring.
  bool clock = false;
  bool gates = false;
};

// Defined for lags >= 0.
std::vector<Family> OneSidedFamilies();
// Defined for every lag, the others under the two-sided rule among them.
std::vector<Family> TwoSidedFamilies();

// Two query heads on one kv head; ticks of 1 ns with gaps over six decades,
// ties among them, queries at the keys' times where they are as many.
ProblemSpec FamilyProblem(const Family& family, uint64_t seed, int64_t queries,
                          int64_t keys, bool causal);

// Clocks of `heads` heads that never run backwards along time, and the same for
// queries and keys.
std::vector<float> ClockAt(const std::vector<int64_t>& times, int64_t heads);

// Times the contract that the family may take.
double Slack(const EncodingSpec& spec);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_ENCODING_FAMILIES_H_
