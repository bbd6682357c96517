// What a request of the linear kind says besides its tensors.
#ifndef ATTND_SERVER_LINEAR_REQUEST_H_
#define ATTND_SERVER_LINEAR_REQUEST_H_

#include <optional>
#include <string>

#include "attnd/v1/attention.pb.h"
#include "kernels/linear_problem.h"
#include "server/request_check.h"
#include "server/violations.h"

namespace attnd::server {

struct DecodedLinear {
  LinearOptions options;
  std::optional<LinearState> initial;  // all states of the request, merged
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

// The problem to plan; borrows from both.
LinearProblem LinearProblemOf(const AttentionProblem& problem,
                              const DecodedLinear& linear);

}  // namespace attnd::server

#endif  // ATTND_SERVER_LINEAR_REQUEST_H_
