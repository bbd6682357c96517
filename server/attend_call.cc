#include "server/attend_call.h"

#include <chrono>
#include <utility>

#include "server/guarded.h"
#include "server/status.h"

namespace attnd::server {

AttendCall::AttendCall(const ServiceContext& context,
                       grpc::CallbackServerContext& rpc,
                       grpc::ByteBuffer& reply)
    : context_(context),
      rpc_(rpc),
      record_(context, Method::kAttend, rpc),
      reply_(reply),
      work_(context, record_.MessageArrived(), *this) {}

void AttendCall::Begin(grpc::ByteBuffer& message) {
  const auto bytes = static_cast<int64_t>(message.Length());
  const absl::Status status = Guarded([&] {
    if (!record_.access().ok()) return record_.access();
    if (ParseMessage(message, work_.request())) return absl::OkStatus();
    return Refuse(Reason::kInvalid,
                  "the message is not a serialized attnd.v1.AttendRequest");
  });
  if (!status.ok()) return work_.Refuse(status);
  work_.Begin(bytes);
}

void AttendCall::Ended(Outcome outcome) {
  const grpc::Status end = record_.End(outcome, work_.request().request_id());
  if (!end.ok()) return Finish(end);
  // Finish serializes the reply on this thread, and may delete this.
  Metrics& metrics = context_.metrics;
  const Instant start = std::chrono::steady_clock::now();
  reply_ = ToByteBuffer(std::move(outcome.reply));
  if (reply_.Length() > kUnlimitedReplyBytes) {
    send_limit_.emplace(rpc_, work_.deadline());
  }
  Finish(end);
  metrics.StageTook(Stage::kFinish,
                    Seconds(std::chrono::steady_clock::now() - start));
}

}  // namespace attnd::server
