// What Plan::Make refuses, and how it says so.
#ifndef ATTND_KERNELS_PROBLEM_CHECKS_H_
#define ATTND_KERNELS_PROBLEM_CHECKS_H_

#include "absl/status/status.h"
#include "kernels/plan.h"

namespace attnd {

// Everything that shapes and settings alone decide. INVALID_ARGUMENT names the
// field, what was expected and what came.
absl::Status CheckProblem(const AttentionProblem& problem);

// Everything that needs the geometry of one item of the plan: negative visible
// lags under a one-sided encoding (first pair and count), learned clocks that
// run backwards or are not finite, a bias of NaN or +inf where visible.
absl::Status CheckItem(const Plan& plan, int64_t item);

}  // namespace attnd

#endif  // ATTND_KERNELS_PROBLEM_CHECKS_H_
