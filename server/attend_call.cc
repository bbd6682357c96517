#include "server/attend_call.h"

#include <grpc/grpc.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/guarded.h"
#include "server/status.h"

namespace attnd::server {

AttendCall::AttendCall(const ServiceContext& context,
                       grpc::CallbackServerContext& rpc)
    : context_(context), rpc_(rpc), record_(context, Method::kAttend, rpc) {
  absl::Status refusal = record_.access();
  if (refusal.ok()) {
    const double most = context.settings.Get()->limits().deadline_seconds();
    // This is there until it has left, or was given up and so finished.
    const std::shared_ptr<Receiving::Receiver> self(std::shared_ptr<void>(),
                                                    this);
    refusal = context_.receiving.Enter(self, record_.peer(),
                                       record_.arrival() + FromSeconds(most));
  }
  if (refusal.ok()) {
    StartRead(&message_);
  } else {
    Refuse(refusal);
  }
}

void AttendCall::Refuse(const absl::Status& status) {
  Finish(record_.End({.status = status}, ""));
}

void AttendCall::OnReadDone(bool ok) {
  const auto bytes = static_cast<int64_t>(message_.Length());
  if (!context_.receiving.Leave(*this, bytes)) return;
  if (ok) return Begin();
  const absl::Status left = record_.WhyLeft();
  if (absl::IsDeadlineExceeded(left) ||
      grpc_call_failed_before_recv_message(rpc_.c_call()) != 0) {
    return Refuse(left);
  }
  // The call ended without a message, or gRPC threw away one that it does not
  // take and has ended the call: then nothing can be sent any more.
  StartSendInitialMetadata();
}

void AttendCall::OnSendInitialMetadataDone(bool ok) {
  if (ok) {
    return Refuse(server::Refuse(Reason::kInvalid,
                                 "the call has no message, or not all of it"));
  }
  // For the log and the metrics; gRPC has told the caller.
  const int64_t most = context_.settings.Get()->limits().message_bytes();
  Refuse(
      server::Refuse(Reason::kTooLarge,
                     absl::StrCat("gRPC refused the call's message: more than "
                                  "limits.message_bytes = ",
                                  most, " bytes, compressed, or cut short")));
}

void AttendCall::Begin() {
  const auto bytes = static_cast<int64_t>(message_.Length());
  bool cancelled;
  {
    std::lock_guard lock(mutex_);
    work_.emplace(context_, record_.MessageArrived(),
                  static_cast<AttendWork::Owner&>(*this));
    cancelled = cancelled_;
  }
  if (cancelled) context_.executor.Cancel(work_->jobs(), record_.WhyLeft());
  const absl::Status parsed = Guarded([&] {
    if (ParseMessage(message_, work_->request())) return absl::OkStatus();
    return server::Refuse(
        Reason::kInvalid,
        "the message is not a serialized attnd.v1.AttendRequest");
  });
  if (!parsed.ok()) return work_->Refuse(parsed);
  work_->Begin(bytes);
}

void AttendCall::OnCancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (work_) context_.executor.Cancel(work_->jobs(), record_.WhyLeft());
}

void AttendCall::Ended(Outcome outcome) {
  const grpc::Status end = record_.End(outcome, work_->request().request_id());
  if (!end.ok()) return Finish(end);
  // Finishing may delete this.
  Metrics& metrics = context_.metrics;
  const Instant start = std::chrono::steady_clock::now();
  reply_ = ToByteBuffer(std::move(outcome.reply));
  if (reply_.Length() > kUnlimitedReplyBytes) {
    send_limit_.emplace(rpc_, work_->deadline());
  }
  StartWriteAndFinish(&reply_, grpc::WriteOptions(), end);
  metrics.StageTook(Stage::kFinish,
                    Seconds(std::chrono::steady_clock::now() - start));
}

}  // namespace attnd::server
