#include "server/attend_stream.h"

#include <grpc/grpc.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attnd/v1/attention.pb.h"
#include "google/protobuf/arena.h"
#include "server/guarded.h"
#include "server/status.h"
#include "server/stream_reply.h"
#include "server/violations.h"

namespace attnd::server {

// One message of the stream.
class AttendStream::Request : private AttendWork::Owner {
 public:
  explicit Request(AttendStream& stream)
      : arrival_(stream.record_.MessageArrived()),
        stream_(stream),
        work_(stream.context_, arrival_, *this) {}

  AttendWork& work() { return work_; }
  const std::string& id() { return work_.request().request_id(); }
  Instant arrival() const { return arrival_.at; }

  // No other open message has its id.
  bool unique = false;

 private:
  void Ended(Outcome outcome) override {
    stream_.Ended(*this, std::move(outcome));
  }

  const Arrival arrival_;
  AttendStream& stream_;
  AttendWork work_;
};

AttendStream::AttendStream(const ServiceContext& context,
                           grpc::CallbackServerContext& rpc)
    : context_(context),
      rpc_(rpc),
      record_(context, Method::kAttendStream, rpc),
      flow_(std::make_shared<StreamFlow>(
          static_cast<StreamFlow::Wire&>(*this),
          context.settings.Get()->limits().stream_inflight())),
      reading_(std::make_shared<Reading>(rpc)) {
  context_.streams.Enter(flow_);
  if (record_.access().ok()) {
    flow_->Begin();
  } else {
    Finish(record_.access());
  }
}

AttendStream::~AttendStream() {
  reading_->call.Forget();
  context_.streams.Leave(flow_);
}

void AttendStream::Read() {
  // Never refused: a stream may be silent as long as it likes.
  context_.receiving.Enter(reading_, rpc_.peer(), Instant::max()).IgnoreError();
  StartRead(&message_);
}

void AttendStream::OnReadDone(bool ok) {
  const auto bytes = static_cast<int64_t>(message_.Length());
  context_.receiving.Leave(*reading_, bytes);
  if (!ok) {
    if (grpc_call_failed_before_recv_message(rpc_.c_call()) != 0) OnCancel();
    return flow_->ReadEnded();
  }
  auto request = std::make_shared<Request>(*this);
  const absl::Status parsed = Guarded([&] {
    // In the same arena, or the swap would copy.
    auto& message =
        *google::protobuf::Arena::CreateMessage<v1::AttendStreamRequest>(
            &request->work().arena());
    if (ParseMessage(message_, message)) {
      request->work().request().Swap(message.mutable_request());
      return absl::OkStatus();
    }
    return Refuse(
        Reason::kInvalid,
        "the message is not a serialized attnd.v1.AttendStreamRequest");
  });
  {
    std::lock_guard lock(mutex_);
    open_[request.get()] = request;
  }
  Begin(request, parsed, bytes);
}

void AttendStream::Begin(std::shared_ptr<Request> request,
                         const absl::Status& parsed, int64_t bytes) {
  request->unique = flow_->Arrived(request->id());
  bool cancelled;
  {
    std::lock_guard lock(mutex_);
    cancelled = cancelled_;
  }
  if (cancelled) {
    context_.executor.Cancel(request->work().jobs(), record_.WhyLeft());
  }
  if (!parsed.ok()) return request->work().Refuse(parsed);
  Violations violations;
  Reason reason = Reason::kInvalid;
  if (request->id().empty()) {
    violations.Add("request.request_id", "required in a stream");
  } else if (!request->unique) {
    reason = Reason::kDuplicateId;
    violations.Add("request.request_id",
                   absl::StrCat("\"", request->id(),
                                "\" is taken by a request in flight, which "
                                "gets its own answer"));
  }
  if (!violations.empty()) {
    return request->work().Refuse(violations.ToStatus(reason));
  }
  request->work().Begin(bytes);
}

void AttendStream::Ended(Request& request, Outcome outcome) {
  record_.MessageEnded(outcome, request.id(), request.arrival());
  const std::string id = request.id();
  const bool unique = request.unique;
  ReplyPieces reply = StreamReply(id, outcome);
  std::shared_ptr<Request> kept;
  {
    std::lock_guard lock(mutex_);
    const auto it = open_.find(&request);
    kept = std::move(it->second);
    open_.erase(it);
  }
  // The last touch: the stream may be over with it, and gone.
  const std::shared_ptr<StreamFlow> flow = flow_;
  flow->Answer(unique ? &id : nullptr, std::move(reply));
}

void AttendStream::Write(ReplyPieces reply) {
  context_.metrics.MessageSent(Method::kAttendStream);
  reply_ = ToByteBuffer(std::move(reply));
  if (reply_.Length() > kUnlimitedReplyBytes) {
    const double seconds = context_.settings.Get()->limits().deadline_seconds();
    send_limit_.emplace(
        rpc_, std::chrono::steady_clock::now() + FromSeconds(seconds));
  }
  StartWrite(&reply_);
}

void AttendStream::OnWriteDone(bool ok) {
  send_limit_.reset();
  // gRPC is done with it, however long the next one takes.
  reply_.Clear();
  flow_->Written(ok);
}

void AttendStream::End(StreamEnd end) {
  absl::Status status;
  if (end == StreamEnd::kCancelled) {
    status = record_.WhyLeft();
  } else if (end == StreamEnd::kDraining) {
    status = RefuseDraining();
  }
  Finish(status);
}

void AttendStream::Finish(const absl::Status& status) {
  end_ = status;
  ServerBidiReactor::Finish(record_.EndStream(status));
}

// Only now it is known whether the caller was told so: what ended the call, a
// message that gRPC does not take for one, may look as if there were no more.
void AttendStream::OnDone() {
  bool cancelled;
  {
    std::lock_guard lock(mutex_);
    cancelled = cancelled_;
  }
  if (end_.ok() && cancelled) {
    end_ = record_.WhyLeft();
    if (absl::IsCancelled(end_)) {
      end_ = absl::CancelledError(
          absl::StrCat("the caller left, or gRPC refused a message: more than "
                       "limits.message_bytes = ",
                       context_.settings.Get()->limits().message_bytes(),
                       " bytes, compressed, or cut short"));
    }
  }
  record_.StreamEnded(end_);
  delete this;
}

void AttendStream::OnCancel() {
  std::vector<std::shared_ptr<Request>> open;  // keeps the jobs
  std::vector<Job*> jobs;
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (const auto& [key, request] : open_) {
      open.push_back(request);
      for (Job* job : request->work().jobs()) jobs.push_back(job);
    }
  }
  context_.executor.Cancel(jobs, record_.WhyLeft());
  flow_->Cancelled();
}

}  // namespace attnd::server
