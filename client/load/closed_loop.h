// A closed loop: as many calls in flight as there are callers, each followed by
// the next.
#ifndef ATTND_CLIENT_LOAD_CLOSED_LOOP_H_
#define ATTND_CLIENT_LOAD_CLOSED_LOOP_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <vector>

#include "client/load/caller.h"
#include "client/load/load_result.h"

namespace attnd::client {

struct ClosedLoop {
  int in_flight = 1;
  // Calls that start within this time after the first are not measured.
  std::chrono::nanoseconds warm_up{0};
  // The measured part ends when either is reached; 0 = not bounded by it. One
  // must be set. Calls in flight at the end are waited for.
  std::chrono::nanoseconds duration{0};
  int64_t calls = 0;
};

// Sends `requests` in turn through slots 0 .. in_flight - 1 of `caller`, in
// which nothing must be in flight.
//
// A closed loop waits when the server is slow and so asks less of it: its
// latencies say how long answers take at this concurrency, not how long users
// with a schedule of their own would wait.
LoadResult RunClosedLoop(const ClosedLoop& loop,
                         const std::vector<grpc::ByteBuffer>& requests,
                         Caller& caller);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_LOAD_CLOSED_LOOP_H_
