#include "tests/integration/test_client.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <thread>

#include "attnd/v1/attention.grpc.pb.h"

namespace attnd::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience(60);

void SetDeadline(double seconds, grpc::ClientContext& context) {
  if (seconds == kNoDeadline) return;
  context.set_deadline(
      std::chrono::system_clock::now() +
      std::chrono::microseconds(static_cast<int64_t>(1e6 * seconds)));
}

void Fill(const grpc::Status& status, const grpc::ClientContext& context,
          Clock::time_point start, CallEnd& end) {
  end.code = status.error_code();
  end.message = status.error_message();
  end.details.ParseFromString(status.error_details());
  for (const auto& [key, value] : context.GetServerTrailingMetadata()) {
    end.trailers[std::string(key.data(), key.size())] =
        std::string(value.data(), value.size());
  }
  end.seconds = std::chrono::duration<double>(Clock::now() - start).count();
}

class Handle : public AttendHandle {
 public:
  Handle(v1::AttentionScoring::Stub& stub, const v1::AttendRequest& request,
         double deadline_seconds, const Metadata& metadata)
      : request_(request), start_(Clock::now()) {
    for (const auto& [key, value] : metadata) context_.AddMetadata(key, value);
    SetDeadline(deadline_seconds, context_);
    stub.async()->Attend(&context_, &request_, &result_.reply,
                         [this](const grpc::Status& status) {
                           Fill(status, context_, start_, result_);
                           done_.set_value();
                         });
  }
  ~Handle() override {
    context_.TryCancel();
    Wait();
  }
  void Cancel() override { context_.TryCancel(); }
  const Result<v1::AttendResponse>& Wait() override {
    if (future_.wait_for(kPatience) != std::future_status::ready) {
      ADD_FAILURE() << "a call never ended";
      std::abort();  // its callback would write into dead memory
    }
    return result_;
  }
  bool ended() const override {
    return future_.wait_for(std::chrono::seconds(0)) ==
           std::future_status::ready;
  }

 private:
  const v1::AttendRequest request_;
  const Clock::time_point start_;
  grpc::ClientContext context_;
  Result<v1::AttendResponse> result_;
  std::promise<void> done_;
  std::shared_future<void> future_ = done_.get_future().share();
};

class Stream : public StreamHandle {
 public:
  explicit Stream(v1::AttentionScoring::Stub& stub)
      : stream_(stub.AttendStream(&context_)) {}
  bool Send(const v1::AttendStreamRequest& request) override {
    return stream_->Write(request);
  }
  void CloseSending() override { stream_->WritesDone(); }
  void Cancel() override { context_.TryCancel(); }
  bool Receive(v1::AttendStreamResponse& response) override {
    return stream_->Read(&response);
  }
  CallEnd Finish() override {
    CallEnd end;
    Fill(stream_->Finish(), context_, start_, end);
    return end;
  }

 private:
  const Clock::time_point start_ = Clock::now();
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AttendStreamRequest,
                                           v1::AttendStreamResponse>>
      stream_;
};

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

// HealthCheckRequest{service}; HealthCheckResponse{status}.
std::string HealthRequest(const std::string& service) {
  std::string bytes;
  if (!service.empty()) {
    bytes = {'\x0a', static_cast<char>(service.size())};
    bytes += service;
  }
  return bytes;
}
int HealthStatus(const std::string& reply) {
  return reply.size() == 2 && reply[0] == '\x08' ? reply[1] : 0;
}

// One bidirectional stream of bytes: writes a message, reads until it ends.
class ByteStream
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  ByteStream(grpc::GenericStub& stub, const std::string& method,
             const std::string& bytes,
             std::function<void(const std::string&)> seen)
      : request_(ToBuffer(bytes)), seen_(std::move(seen)) {
    stub.PrepareBidiStreamingCall(&context_, method, {}, this);
    StartWriteLast(&request_, {});
    StartRead(&reply_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    seen_(ToString(reply_));
    StartRead(&reply_);
  }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.set_value();
  }
  grpc::Status Wait() {
    done_.get_future().wait();
    return status_;
  }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  grpc::ByteBuffer request_, reply_;
  std::function<void(const std::string&)> seen_;
  grpc::Status status_;
  std::promise<void> done_;
};

class HealthWatch : public TestClient::Watch {
 public:
  HealthWatch(grpc::GenericStub& stub, const std::string& service,
              std::function<void(int)> seen)
      : stream_(stub, "/grpc.health.v1.Health/Watch", HealthRequest(service),
                [seen = std::move(seen)](const std::string& reply) {
                  seen(HealthStatus(reply));
                }) {}
  ~HealthWatch() override {
    stream_.Cancel();
    stream_.Wait();
  }

 private:
  ByteStream stream_;
};

}  // namespace

struct TestClient::Parts {
  Parts(const std::string& address,
        const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(std::numeric_limits<int>::max());
    arguments.SetMaxSendMessageSize(std::numeric_limits<int>::max());
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // The name in the test certificates.
    arguments.SetSslTargetNameOverride("server.attnd.test");
    channel = grpc::CreateCustomChannel(address, credentials, arguments);
    stub = v1::AttentionScoring::NewStub(channel);
    generic = std::make_unique<grpc::GenericStub>(channel);
  }

  // A blocking unary call of a generated stub method.
  template <typename Reply, typename Function>
  Result<Reply> Call(Function function) {
    Result<Reply> result;
    grpc::ClientContext context;
    context.set_wait_for_ready(false);
    const Clock::time_point start = Clock::now();
    const grpc::Status status = function(&context, &result.reply);
    Fill(status, context, start, result);
    return result;
  }

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::AttentionScoring::Stub> stub;
  std::unique_ptr<grpc::GenericStub> generic;
};

bool CallEnd::Detail(const std::string& name,
                     google::protobuf::Message& detail) const {
  for (const auto& any : details.details()) {
    if (any.type_url() == "type.googleapis.com/google.rpc." + name) {
      return detail.ParseFromString(any.value());
    }
  }
  return false;
}

std::string CallEnd::Fields() const {
  rpc::v1::BadRequest bad;
  std::string fields;
  if (!Detail("BadRequest", bad)) return fields;
  for (const auto& violation : bad.field_violations()) {
    if (!fields.empty()) fields += ",";
    fields += violation.field();
  }
  return fields;
}

bool CallEnd::Retryable() const {
  rpc::v1::RetryInfo retry;
  return Detail("RetryInfo", retry);
}

std::string CallEnd::Reason() const {
  rpc::v1::ErrorInfo info;
  Detail("ErrorInfo", info);
  return info.reason();
}

TestClient::TestClient(const std::string& address)
    : parts_(std::make_unique<Parts>(address,
                                     grpc::InsecureChannelCredentials())) {}
TestClient::TestClient(const std::string& address, const std::string& authority,
                       const std::string& certificate, const std::string& key)
    : parts_(std::make_unique<Parts>(
          address, grpc::SslCredentials({.pem_root_certs = authority,
                                         .pem_private_key = key,
                                         .pem_cert_chain = certificate}))) {}
TestClient::~TestClient() = default;

Result<v1::AttendResponse> TestClient::Attend(const v1::AttendRequest& request,
                                              double deadline_seconds,
                                              const Metadata& metadata) {
  return parts_->Call<v1::AttendResponse>(
      [&](grpc::ClientContext* context, v1::AttendResponse* reply) {
        SetDeadline(deadline_seconds, *context);
        for (const auto& [key, value] : metadata) {
          context->AddMetadata(key, value);
        }
        return parts_->stub->Attend(context, request, reply);
      });
}

std::unique_ptr<AttendHandle> TestClient::StartAttend(
    const v1::AttendRequest& request, double deadline_seconds,
    const Metadata& metadata) {
  return std::make_unique<Handle>(*parts_->stub, request, deadline_seconds,
                                  metadata);
}

Result<v1::EstimateResponse> TestClient::Estimate(
    const v1::AttendRequest& request) {
  v1::EstimateRequest estimate;
  *estimate.mutable_request() = request;
  return parts_->Call<v1::EstimateResponse>(
      [&](grpc::ClientContext* context, v1::EstimateResponse* reply) {
        return parts_->stub->Estimate(context, estimate, reply);
      });
}

Result<v1::ListEncodingsResponse> TestClient::ListEncodings(
    const v1::ListEncodingsRequest& request) {
  return parts_->Call<v1::ListEncodingsResponse>(
      [&](grpc::ClientContext* context, v1::ListEncodingsResponse* reply) {
        return parts_->stub->ListEncodings(context, request, reply);
      });
}

Result<v1::GetServerInfoResponse> TestClient::GetServerInfo() {
  return parts_->Call<v1::GetServerInfoResponse>(
      [&](grpc::ClientContext* context, v1::GetServerInfoResponse* reply) {
        return parts_->stub->GetServerInfo(context, {}, reply);
      });
}

std::unique_ptr<StreamHandle> TestClient::AttendStream() {
  return std::make_unique<Stream>(*parts_->stub);
}

CallEnd EndOf(const v1::AttendStreamResponse& response) {
  CallEnd end;
  if (response.has_response()) {
    end.code = kOk;
  } else if (end.details.ParseFromString(response.status())) {
    end.code = end.details.code();
    end.message = end.details.message();
  }
  return end;
}

CallEnd TestClient::CallRaw(const std::string& method, const std::string& bytes,
                            std::string* reply) {
  return Call(method, bytes, false, reply);
}

CallEnd TestClient::CallGzip(const std::string& method,
                             const std::string& bytes) {
  return Call(method, bytes, true, nullptr);
}

CallEnd TestClient::Call(const std::string& method, const std::string& bytes,
                         bool gzip, std::string* reply) {
  grpc::ClientContext context;
  if (gzip) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  const grpc::ByteBuffer request = ToBuffer(bytes);
  grpc::ByteBuffer answer;
  std::promise<grpc::Status> done;
  const Clock::time_point start = Clock::now();
  parts_->generic->UnaryCall(
      &context, method, {}, &request, &answer,
      [&done](grpc::Status status) { done.set_value(std::move(status)); });
  CallEnd end;
  const grpc::Status status = done.get_future().get();
  Fill(status, context, start, end);
  if (reply != nullptr && status.ok()) *reply = ToString(answer);
  return end;
}

int TestClient::Health(const std::string& service) {
  std::string reply;
  const CallEnd end =
      CallRaw("/grpc.health.v1.Health/Check", HealthRequest(service), &reply);
  return end.ok() ? HealthStatus(reply) : -end.code;
}

std::unique_ptr<TestClient::Watch> TestClient::WatchHealth(
    const std::string& service, std::function<void(int)> seen) {
  return std::make_unique<HealthWatch>(*parts_->generic, service,
                                       std::move(seen));
}

std::string TestClient::ReflectedServices() {
  std::string names;
  // ServerReflectionRequest{list_services: ""}.
  ByteStream stream(*parts_->generic,
                    "/grpc.reflection.v1alpha.ServerReflection/"
                    "ServerReflectionInfo",
                    std::string("\x3a\x00", 2),
                    [&](const std::string& reply) { names += reply; });
  stream.Wait();
  return names;
}

}  // namespace attnd::testing
