// The double-precision oracle of the linear kind: pair by pair, as the formulas
// read. Shares nothing with the fast path but the inputs' definitions.
#ifndef ATTND_KERNELS_LINEAR_REFERENCE_H_
#define ATTND_KERNELS_LINEAR_REFERENCE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/linear_problem.h"

namespace attnd {

struct LinearReferenceAnswer {
  std::vector<double> output;  // [B,Hq,Lq,Dv], always BHLD
  // What the accuracy contract (linear.h) scales with, per element: the sum of
  // |scale| |q_i| |A_ij(D)| |k_j| |v|, divided by what the row is divided by.
  std::vector<double> size;
};

// Holds are integrated numerically; OUT_OF_RANGE where one takes thousands of
// turns. Carried states are not looked at: the
// oracle of a piece is the whole stream. Cost O(B Hq Lq Lk D^2).
absl::StatusOr<LinearReferenceAnswer> ReferenceLinear(
    const LinearProblem& problem);

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_REFERENCE_H_
