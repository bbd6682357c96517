// The mask of an AttendRequest from command-line arguments.
#ifndef ATTND_CLIENT_ATTNCTL_ATTEND_MASK_H_
#define ATTND_CLIENT_ATTNCTL_ATTEND_MASK_H_

#include "absl/status/status.h"
#include "attnd/v1/attention.pb.h"
#include "client/attnctl/attend_request.h"

namespace attnd::client {

// Reads mask files and fills the mask; the request's times must be set. Errors
// name the option or the file.
absl::Status SetMask(const AttendArguments& arguments,
                     v1::AttendRequest* request);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_ATTNCTL_ATTEND_MASK_H_
