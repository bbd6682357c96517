// What all calls have in common: their arrival, deadline and end, as metrics
// and the access log see them.
#ifndef ATTND_SERVER_CALL_H_
#define ATTND_SERVER_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "server/access.h"
#include "server/attend_work.h"
#include "server/reply.h"
#include "server/service_context.h"
#include "server/time_source.h"

namespace attnd::server {

// What a call may bring in metadata, names and values, as gRPC has it by
// default. More is refused here and not by gRPC, which would end all calls of
// the connection.
inline constexpr size_t kMaxMetadataBytes = 8 << 10;

// Counts a call in on construction and out on destruction.
class CallRecord {
 public:
  CallRecord(const ServiceContext& context, Method method,
             grpc::CallbackServerContext& rpc);
  ~CallRecord() { context_.calls.Leave(); }
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  // What keeps the caller out; OK if nothing.
  const absl::Status& access() const { return access_; }
  Instant arrival() const { return arrival_; }
  // As gRPC names the other end; it forgets it when it ends a call itself.
  const std::string& peer() const { return peer_; }
  // Of a call that ended without the server: DEADLINE_EXCEEDED if its deadline
  // has come, else CANCELLED. gRPC does not tell.
  absl::Status WhyLeft() const;
  // Of a request that arrives now, counted; it has the whole of
  // limits.deadline_seconds before it if the call has no deadline. A call of
  // one request lasts from now on.
  Arrival MessageArrived();

  // The status to finish with; call it once. Counts the end of the call and of
  // its only request, sets the trailers (stage timings, load report, trace
  // context, and the pushback where a retry is wanted), and writes the access
  // line.
  grpc::Status End(const Outcome& outcome, absl::string_view request_id);
  // The same for a call of many requests, but for what is counted and logged.
  grpc::Status EndStream(const absl::Status& status);
  // It is over, with that status: counts it, and writes a line unless it is OK.
  void StreamEnded(const absl::Status& status);
  // The end of one of them.
  void MessageEnded(const Outcome& outcome, absl::string_view request_id,
                    Instant arrival);

 private:
  void WriteLine(const Outcome& outcome, absl::string_view request_id,
                 double seconds, int code, absl::string_view message);
  // Sets the trailers.
  grpc::Status Finish(const absl::Status& status, double compute_seconds);
  void SendTimings(const Outcome& outcome);

  const ServiceContext& context_;
  const Method method_;
  grpc::CallbackServerContext& rpc_;
  const std::string peer_;
  const Instant begun_;
  Instant arrival_;
  const Instant rpc_deadline_;
  const bool is_retry_;
  const Caller caller_;
  const std::string traceparent_;  // empty if none, or none of the form
  const absl::Status access_;
};

// Slices that own the tensors until gRPC has sent them.
grpc::ByteBuffer ToByteBuffer(ReplyPieces pieces);

// Parses the bytes and lets go of them; false if they are no such message.
bool ParseMessage(grpc::ByteBuffer& bytes,
                  google::protobuf::MessageLite& message);

}  // namespace attnd::server

#endif  // ATTND_SERVER_CALL_H_
