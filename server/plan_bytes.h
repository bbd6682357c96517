// Memory that a plan will hold and the time that making it takes, known before.
#ifndef ATTND_SERVER_PLAN_BYTES_H_
#define ATTND_SERVER_PLAN_BYTES_H_

#include <cstdint>

#include "attnd/v1/attention.pb.h"
#include "server/decode.h"
#include "server/request_check.h"

namespace attnd::server {

// Items of a request: the batch, or the sequences packed into one.
int64_t Items(const v1::AttendRequest& request, const RequestSizes& sizes);

// An upper bound of what Plan::Make or LinearPlan::Make holds for a decoded
// request, and of the states and sums of the linear kind, bytes; at most 2^60.
int64_t PlanBytes(const v1::AttendRequest& request,
                  const DecodedRequest& decoded);

// About what making the plan takes, whatever the times.
double PlanSeconds(const v1::AttendRequest& request, const RequestSizes& sizes);

}  // namespace attnd::server

#endif  // ATTND_SERVER_PLAN_BYTES_H_
