// What Plan::Make refuses before it looks at times, and how it says so.
#ifndef ATTND_KERNELS_PROBLEM_CHECKS_H_
#define ATTND_KERNELS_PROBLEM_CHECKS_H_

#include "absl/status/status.h"
#include "kernels/plan.h"

namespace attnd {

// Everything that shapes and settings alone decide. INVALID_ARGUMENT names the
// field, what was expected and what came.
absl::Status CheckProblem(const AttentionProblem& problem);

}  // namespace attnd

#endif  // ATTND_KERNELS_PROBLEM_CHECKS_H_
