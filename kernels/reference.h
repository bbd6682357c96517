// The double-precision oracle: attention pair by pair, as the formulas read.
//
// Shares nothing with the fast path but the inputs' definitions (views, axes,
// the encoder's numbers). Visibility is decided pair by pair from the rules,
// not from intervals; phases are reduced in 113-bit arithmetic or better from
// the encoder's turn frequencies. Cost O(B Hq Lq Lk D); shipped for tests and
// self-checks, never served.
#ifndef ATTND_KERNELS_REFERENCE_H_
#define ATTND_KERNELS_REFERENCE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/plan.h"

namespace attnd {

struct ReferenceAnswer {
  std::vector<double> output;   // [B,Hq,Lq,Dv], always BHLD
  std::vector<double> lse;      // [B,Hq,Lq]
  std::vector<double> scores;   // [B,Hq,Lq,Lk]
  std::vector<double> weights;  // [B,Hq,Lq,Lk]
  // The sizes that the accuracy contract (attention.h) scales with, per row
  // [B,Hq,Lq]: S, the largest over visible keys of
  // scale * sum_ij |q_i||A_ij(D)||k_j| + |bias|, and M = max |V| over them.
  std::vector<double> logit_size;
  std::vector<double> value_size;
};

// Follows the semantics of plan.h to the letter, also for NaN: a non-finite
// visible q or k makes the row NaN; a non-finite visible V makes that channel
// of the row NaN; hidden rows never leak. Problems that Plan::Make refuses give
// an unspecified answer.
absl::StatusOr<ReferenceAnswer> ReferenceAttention(
    const AttentionProblem& problem);

}  // namespace attnd

#endif  // ATTND_KERNELS_REFERENCE_H_
