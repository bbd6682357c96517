// Runs problems of the linear kind and judges what the kernels answer.
#ifndef ATTND_TESTS_KERNELS_LINEAR_ANSWER_H_
#define ATTND_TESTS_KERNELS_LINEAR_ANSWER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/linear.h"
#include "kernels/linear_reference.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

struct LinearCase {
  ProblemSpec spec;
  LinearOptions options;
};

struct LinearAnswer {
  std::vector<float> output;  // BHLD
  LinearState state;
};

// Plans and runs; `initial` may be null.
absl::StatusOr<LinearAnswer> RunLinearCase(const LinearCase& which,
                                           const LinearState* initial = nullptr,
                                           bool return_state = false);

// Whether the reference can tell (linear_reference.h).
bool ReferenceKnows(const LinearCase& which);

LinearReferenceAnswer ReferenceOf(const LinearCase& which);

// "" when every element is within `slack` * kLinearError of its size, or within
// `least`, and NaN in the same places, else the worst that is not.
std::string Compare(const LinearCase& which, const std::vector<float>& output,
                    const LinearReferenceAnswer& reference, double slack = 1,
                    double least = 0);

// Runs, computes the reference, compares.
std::string Judge(const LinearCase& which, double slack = 1, double least = 0);

// Rows [first, last) of queries and keys of a self-attention problem with one
// batch item, in the order they stand in.
ProblemSpec Piece(const ProblemSpec& spec, int64_t first, int64_t last);

// Multiplicative encodings that are bounded for D >= 0, by name, for a head
// dimension of 16 or more; in seconds. `clock` tells that the request must
// bring one.
struct LinearFamily {
  std::string name;
  EncodingSpec spec;
  bool clock = false;
  double slack = 1;  // the condition number of a dense one
};
std::vector<LinearFamily> LinearFamilies();
// One of them; fails the test if there is none.
LinearFamily FamilyNamed(const std::string& name);

// Irregular times with gaps from 0.1 ms to 100 s, one in ten 0.
std::vector<int64_t> IrregularTimes(Random& random, int64_t count);

// Divides the gaps of a spec of LinearSpec.
void ShortenTimes(ProblemSpec& spec, int64_t by);

// Self-attention on irregular times, or queries at times of their own.
ProblemSpec LinearSpec(const LinearFamily& family, uint64_t seed,
                       int64_t queries, int64_t keys);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_LINEAR_ANSWER_H_
