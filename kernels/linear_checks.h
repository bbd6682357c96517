// What the linear kind refuses.
#ifndef ATTND_KERNELS_LINEAR_CHECKS_H_
#define ATTND_KERNELS_LINEAR_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/linear_problem.h"

namespace attnd {

// INVALID_ARGUMENT with the field for whatever has no meaning beside the linear
// kind: bias, windows, scores and the like, encodings with biases, absolute
// parts, temperature or averages, unbounded ones; a normaliser or a direction
// that the encoding does not allow.
absl::Status CheckLinearProblem(const LinearProblem& problem);

// INVALID_ARGUMENT unless the state has the expected shape and no row of the
// item lies before it. `rows` holds the orders of the item.
absl::Status CheckLinearStart(const LinearProblem& problem,
                              const LinearStateShape& expected,
                              const Plan& rows, int64_t item);

// INVALID_ARGUMENT where a block decays along a clock whose queries stand on
// the wrong side of a key, which the two-sided rule allows for single pairs but
// no state can follow.
absl::Status CheckLinearClocks(const LinearProblem& problem, const Plan& rows,
                               int64_t item);

// Where the item's initial state stands among its rebased ticks.
int64_t RebasedReference(const LinearProblem& problem, const Plan& rows,
                         int64_t item, int coordinate);

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_CHECKS_H_
