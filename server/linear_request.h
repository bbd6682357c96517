// What a request of the linear kind says besides its tensors.
#ifndef ATTND_SERVER_LINEAR_REQUEST_H_
#define ATTND_SERVER_LINEAR_REQUEST_H_

#include <optional>
#include <string>
#include <vector>

#include "attnd/v1/attention.pb.h"
#include "kernels/linear_problem.h"
#include "server/request_check.h"
#include "server/violations.h"

namespace attnd::server {

struct DecodedLinear {
  LinearOptions options;
  // The state before the first row. Of several states its sums are zero: they
  // are those of `parts`, which workers add head by head (MergeLinearHead).
  std::optional<LinearState> initial;
  std::vector<LinearState> parts;
  bool return_state = false;
  TickRatio gap_ratio;
  // Of everything that two pieces of a stream must have in common.
  std::string state_hash;
  // Of the final state in the reply, 0 where none is returned.
  int64_t reply_bytes = 0;
};

// Checks enums, mask and states against the problem that `problem` holds
// already. `encoding_hash` of the resolved encoding. With Payload::kAbsent
// states are not looked at.
DecodedLinear ReadLinear(const v1::AttendRequest& request,
                         const AttentionProblem& problem,
                         const std::string& encoding_hash, Payload payload,
                         Violations& violations);

// Pointers to its parts, for the calls that merge them.
std::vector<const LinearState*> PartsOf(const DecodedLinear& linear);

// The problem to plan; borrows from both.
LinearProblem LinearProblemOf(const AttentionProblem& problem,
                              const DecodedLinear& linear);

}  // namespace attnd::server

#endif  // ATTND_SERVER_LINEAR_REQUEST_H_
