// The part of the request check that concerns times and masks.
#ifndef ATTND_SERVER_TIME_CHECK_H_
#define ATTND_SERVER_TIME_CHECK_H_

#include "attnd/v1/attention.pb.h"
#include "server/request_check.h"
#include "server/violations.h"

namespace attnd::server {

// Checks time axes, windows, lengths and validity against the sizes of the
// tensors. Looks for NaN and infinite times only if nothing was violated
// before.
void CheckTimes(const v1::AttendRequest& request, const RequestSizes& sizes,
                Payload payload, Violations& violations);

}  // namespace attnd::server

#endif  // ATTND_SERVER_TIME_CHECK_H_
