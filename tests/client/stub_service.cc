#include "tests/client/stub_service.h"

#include <grpcpp/alarm.h>

#include "absl/strings/str_cat.h"
#include "attnd/rpc/v1/error_details.pb.h"
#include "tests/client/stub_stream.h"

namespace attnd::client {
namespace {

// Finishes a call after a delay.
class DelayedFinish {
 public:
  static void Start(grpc::ServerUnaryReactor* reactor, grpc::Status status,
                    absl::Duration delay) {
    auto* self = new DelayedFinish(reactor, std::move(status));
    self->alarm_.Set(
        std::chrono::system_clock::now() + absl::ToChronoMicroseconds(delay),
        [self](bool) { self->Finish(); });
  }

 private:
  DelayedFinish(grpc::ServerUnaryReactor* reactor, grpc::Status status)
      : reactor_(reactor), status_(std::move(status)) {}
  void Finish() {
    reactor_->Finish(status_);
    delete this;
  }

  grpc::ServerUnaryReactor* reactor_;
  grpc::Status status_;
  grpc::Alarm alarm_;
};

// A google.rpc.Status; Refusal() has made one already.
std::string StatusBytes(const grpc::Status& status) {
  if (!status.error_details().empty()) return status.error_details();
  rpc::v1::Status bytes;
  bytes.set_code(status.error_code());
  bytes.set_message(status.error_message());
  return bytes.SerializeAsString();
}

std::string Metadata(const grpc::CallbackServerContext& context,
                     const char* key) {
  const auto found = context.client_metadata().find(key);
  if (found == context.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

}  // namespace

StubService::StubService(std::shared_ptr<grpc::ServerCredentials> credentials,
                         const std::string& address) {
  grpc::EnableDefaultHealthCheckService(true);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, credentials, &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

StubService::~StubService() {
  server_->Shutdown(std::chrono::system_clock::now());
}

void StubService::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

std::vector<Arrival> StubService::arrivals() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return arrivals_;
}

int StubService::connections() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(peers_.size());
}

int StubService::Note(const grpc::CallbackServerContext& context) {
  std::lock_guard<std::mutex> lock(mutex_);
  arrivals_.push_back({std::chrono::steady_clock::now(),
                       Metadata(context, "x-attnd-previous-attempts"),
                       Metadata(context, "x-attnd-tenant")});
  peers_.insert(context.peer());
  return static_cast<int>(arrivals_.size()) - 1;
}

grpc::ServerUnaryReactor* StubService::Attend(
    grpc::CallbackServerContext* context, const v1::AttendRequest* request,
    v1::AttendResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const int number = Note(*context);
  grpc::Status status;
  if (on_attend) status = on_attend(number, *request, response);
  if (!status.ok() && !pushback_ms.empty()) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", pushback_ms);
  }
  if (const absl::Duration wait = DelayOf(number);
      wait > absl::ZeroDuration()) {
    DelayedFinish::Start(reactor, status, wait);
  } else {
    reactor->Finish(status);
  }
  return reactor;
}

grpc::ServerBidiReactor<v1::AttendStreamRequest, v1::AttendStreamResponse>*
StubService::AttendStream(grpc::CallbackServerContext* context) {
  return new StubStream([this, context](const v1::AttendRequest& request,
                                        v1::AttendStreamResponse* answer) {
    const int number = Note(*context);
    grpc::Status status;
    v1::AttendResponse response;
    if (on_attend) status = on_attend(number, request, &response);
    answer->set_request_id(request.request_id());
    if (status.ok()) {
      *answer->mutable_response() = response;
    } else {
      answer->set_status(StatusBytes(status));
    }
    return DelayOf(number);
  });
}

grpc::ServerUnaryReactor* StubService::ListEncodings(
    grpc::CallbackServerContext* context,
    const v1::ListEncodingsRequest* request,
    v1::ListEncodingsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(on_list ? on_list(*request, response) : grpc::Status());
  return reactor;
}

grpc::ServerUnaryReactor* StubService::GetServerInfo(
    grpc::CallbackServerContext* context,
    const v1::GetServerInfoRequest* request,
    v1::GetServerInfoResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(on_info ? on_info(*request, response) : grpc::Status());
  return reactor;
}

Detail DetailOf(const std::string& name,
                const google::protobuf::Message& message) {
  return {name, message.SerializeAsString()};
}

Detail RetryAfter(absl::Duration delay) {
  rpc::v1::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(absl::ToInt64Seconds(delay));
  info.mutable_retry_delay()->set_nanos(
      static_cast<int>(absl::ToInt64Nanoseconds(delay) % 1'000'000'000));
  return DetailOf("RetryInfo", info);
}

grpc::Status Refusal(grpc::StatusCode code, const std::string& text,
                     const std::vector<Detail>& details) {
  rpc::v1::Status status;
  status.set_code(code);
  status.set_message(text);
  for (const Detail& detail : details) {
    google::protobuf::Any* any = status.add_details();
    any->set_type_url(
        absl::StrCat("type.googleapis.com/google.rpc.", detail.name));
    any->set_value(detail.bytes);
  }
  return grpc::Status(code, text, status.SerializeAsString());
}

}  // namespace attnd::client
