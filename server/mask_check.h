// What can be said about a request's mask from its sizes alone.
#ifndef ATTND_SERVER_MASK_CHECK_H_
#define ATTND_SERVER_MASK_CHECK_H_

#include "attnd/v1/attention.pb.h"
#include "server/request_check.h"
#include "server/violations.h"

namespace attnd::server {

void CheckMask(const v1::AttendRequest& request, const RequestSizes& sizes,
               Violations& violations);

}  // namespace attnd::server

#endif  // ATTND_SERVER_MASK_CHECK_H_
