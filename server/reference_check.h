// Is an answer right? Compares it with the double-precision reference.
#ifndef ATTND_SERVER_REFERENCE_CHECK_H_
#define ATTND_SERVER_REFERENCE_CHECK_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/plan.h"

namespace attnd::server {

// `output` as the kernels leave it in OutputBuffers::output. INTERNAL names the
// first element off by more than `error` (kOutputError, or kBf16OutputError) of
// the accuracy contract (kernels/attention.h), times the condition of the
// encoding's basis and kJordanSlack where it has powers of a lag. Costs as
// ReferenceAttention does, in time and memory.
absl::Status CheckAgainstReference(const AttentionProblem& problem,
                                   absl::Span<const float> output,
                                   double error);

}  // namespace attnd::server

#endif  // ATTND_SERVER_REFERENCE_CHECK_H_
