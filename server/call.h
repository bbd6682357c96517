// What all calls have in common: their arrival, deadline and end, as metrics
// and the access log see them.
#ifndef ATTND_SERVER_CALL_H_
#define ATTND_SERVER_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "server/service_context.h"
#include "server/time_source.h"

namespace attnd::server {

// Counts a call in on construction and out on destruction.
class CallRecord {
 public:
  CallRecord(const ServiceContext& context, Method method,
             grpc::CallbackServerContext& rpc);
  ~CallRecord() { context_.calls.Leave(); }
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  Instant arrival() const { return arrival_; }
  // The caller's deadline, capped by limits.deadline_seconds.
  Instant deadline() const { return deadline_; }
  // A client library tries again what failed before.
  bool is_retry() const;

  // The status to finish with; call it once. Counts the end, sets the pushback
  // trailer where a retry is wanted, and writes the access line.
  grpc::Status End(const absl::Status& status, absl::string_view request_id,
                   absl::string_view encoding, double queue_seconds,
                   double compute_seconds);

 private:
  const ServiceContext& context_;
  const Method method_;
  grpc::CallbackServerContext& rpc_;
  const Instant arrival_;
  const Instant deadline_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_CALL_H_
