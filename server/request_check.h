// What can be said about a request from the wire alone: are its fields served,
// do its shapes, sizes, units and enums agree with each other and the limits.
//
// Nothing here allocates in proportion to a number that the caller wrote.
#ifndef ATTND_SERVER_REQUEST_CHECK_H_
#define ATTND_SERVER_REQUEST_CHECK_H_

#include <cstdint>

#include "attnd/v1/attention.pb.h"
#include "server/violations.h"

namespace attnd::server {

// Whether the tensors' bytes are there (Attend) or left out (Estimate).
enum class Payload { kPresent, kAbsent };

// Sizes of a request; meaningful when the check found nothing.
struct RequestSizes {
  int64_t batch = 0;
  int64_t query_heads = 0, kv_heads = 0;
  int64_t queries = 0, keys = 0;  // rows per item, before lengths
  int64_t dim = 0, value_dim = 0;
};

// Adds every violated field, in the order of the message.
RequestSizes CheckRequest(const v1::AttendRequest& request,
                          const v1::Limits& limits, Payload payload,
                          Violations& violations);

// Every violated field beside the tensors, times and masks.
void CheckOptions(const v1::AttendRequest& request, Violations& violations);

}  // namespace attnd::server

#endif  // ATTND_SERVER_REQUEST_CHECK_H_
