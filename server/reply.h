// The reply of a request: its size before anything is computed, its tensors,
// and where the kernels write.
#ifndef ATTND_SERVER_REPLY_H_
#define ATTND_SERVER_REPLY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "kernels/plan.h"
#include "server/request_check.h"

namespace attnd::server {

// Elements of each tensor of the reply, 0 for those not asked for.
struct ReplySizes {
  int64_t output = 0, lse = 0, scores = 0, weights = 0;
  // Of the serialized message, an upper bound.
  int64_t bytes = 0;
};

// RESOURCE_EXHAUSTED, with size and limit, when the serialized reply would
// exceed `message_bytes`.
absl::StatusOr<ReplySizes> MeasureReply(const RequestSizes& sizes,
                                        const OutputSet& outputs,
                                        int64_t message_bytes);

// Gives the reply its tensors and returns where their values go. The bytes are
// uninitialised or zero. Throws std::bad_alloc.
OutputBuffers PrepareReply(const v1::AttendRequest& request,
                           const RequestSizes& sizes, const OutputSet& outputs,
                           const ReplySizes& reply_sizes,
                           v1::AttendResponse& reply);

}  // namespace attnd::server

#endif  // ATTND_SERVER_REPLY_H_
