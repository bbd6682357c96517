// From requests to problems. Only this file, reply.h and named_encoding.h know
// both the wire's vocabulary and the kernels'.
#ifndef ATTND_SERVER_DECODE_H_
#define ATTND_SERVER_DECODE_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "kernels/plan.h"
#include "server/encodings.h"
#include "server/linear_request.h"
#include "server/reply.h"
#include "server/request_check.h"
#include "server/settings.h"

namespace attnd::server {

// Whether an encoding may be compiled now, which takes up to a tenth of a
// second, or only one that was compiled before may be used.
enum class Compiling { kNo, kYes };

// What decoding reads besides the request.
struct DecodeContext {
  const EncodingCatalog& encodings;
  const v1::Limits& limits;
  bool inline_encodings_allowed = false;
  // Of dense blocks that requests bring.
  int inline_dense_dim = 128;
  Compiling compiling = Compiling::kYes;
  // Compiling ends with CANCELLED soon after it becomes true; null = never.
  const std::atomic<bool>* stop = nullptr;
};
DecodeContext DecodeContextOf(const Settings& settings, Compiling compiling,
                              const std::atomic<bool>* stop = nullptr);

struct DecodedRequest {
  AttentionProblem problem;  // borrows from the request
  RequestSizes sizes;
  ReplySizes reply;
  // Configured name, or "inline".
  std::string encoding_name;
  // Set for kind LINEAR.
  std::optional<DecodedLinear> linear;
  // What Plan::Make will hold, an upper bound known before it runs, bytes.
  int64_t plan_bytes = 0;
  // What it will take, about. Times are sorted before anything is admitted.
  double plan_seconds = 0;
};

// Checks the request against wire, limits and encodings, all fields at once.
// The request must outlive the result. Refusals: see status.h; a reply that
// would not fit into limits.message_bytes is refused here, from its shape. No
// refusal but a status of IsWorkerNeeded: with Compiling::kYes it would be
// known.
//
// With Payload::kAbsent the tensors are views over no memory, good for
// Plan::Make and nothing else; without times' data visibility is complete.
absl::StatusOr<DecodedRequest> Decode(const v1::AttendRequest& request,
                                      const DecodeContext& context,
                                      Payload payload);

// Too long for a thread of gRPC's: as long as a unit of work.
inline constexpr double kMostPlanSeconds = 0.002;

// Of what a thread of gRPC's must leave to a worker: compiling, and plans that
// take long.
inline absl::Status WorkerNeeded(absl::string_view what) {
  return absl::AbortedError(what);
}
inline bool IsWorkerNeeded(const absl::Status& status) {
  return status.code() == absl::StatusCode::kAborted;
}

// A refusal of Plan::Make as one of ours, with the field in BadRequest.
absl::Status FromPlan(const absl::Status& status,
                      const AttentionProblem& problem);

}  // namespace attnd::server

#endif  // ATTND_SERVER_DECODE_H_
