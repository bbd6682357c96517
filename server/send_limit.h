// Ends a call whose answer is not taken in time: gRPC itself does so only for
// callers who set a deadline.
#ifndef ATTND_SERVER_SEND_LIMIT_H_
#define ATTND_SERVER_SEND_LIMIT_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>

#include <cstddef>
#include <memory>

#include "server/cancellation.h"
#include "server/time_source.h"

namespace attnd::server {

// Answers up to this size always fit into the window of a stream and need no
// limit.
inline constexpr size_t kUnlimitedReplyBytes = 65536;

class SendLimit {
 public:
  // Cancels the call at `end`, on a thread of gRPC, if this still exists.
  SendLimit(grpc::CallbackServerContext& rpc, Instant end);
  ~SendLimit() { call_->Forget(); }
  SendLimit(const SendLimit&) = delete;
  SendLimit& operator=(const SendLimit&) = delete;

 private:
  // Outlives this: the alarm's function runs when the alarm is cancelled, too.
  const std::shared_ptr<Cancellation> call_;
  grpc::Alarm alarm_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_SEND_LIMIT_H_
