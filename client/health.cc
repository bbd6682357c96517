#include "client/health.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include "google/protobuf/wrappers.pb.h"

namespace attnd::client {
namespace {

// HealthCheckRequest is {string service = 1} and HealthCheckResponse {enum
// status = 1}: on the wire these two wrappers are the same. Compiling
// health.proto into a library would clash with a program's own copy of it.
using HealthRequest = google::protobuf::StringValue;
using HealthResponse = google::protobuf::Int32Value;
using HealthStub = grpc::TemplatedGenericStub<HealthRequest, HealthResponse>;

Health FromWire(const HealthResponse& response) {
  switch (response.value()) {
    case 1:
      return Health::kServing;
    case 2:
      return Health::kNotServing;
    case 3:
      return Health::kNoService;
    default:
      return Health::kUnknown;
  }
}

// Waits for the one operation that is under way; false if it failed.
bool Done(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  return queue.Next(&tag, &ok) && ok;
}

}  // namespace

grpc::Status CheckHealthOnce(const std::shared_ptr<grpc::Channel>& channel,
                             grpc::ClientContext& context,
                             const std::string& service, Health* health) {
  HealthRequest request;
  request.set_value(service);
  HealthResponse response;
  grpc::Status status;
  grpc::CompletionQueue queue;
  auto call = HealthStub(channel).PrepareUnaryCall(
      &context, "/grpc.health.v1.Health/Check", request, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  Done(queue);
  *health = FromWire(response);
  return status;
}

grpc::Status WatchHealthOnce(const std::shared_ptr<grpc::Channel>& channel,
                             grpc::ClientContext& context,
                             const std::string& service,
                             const std::function<bool(Health)>& on_change) {
  HealthRequest request;
  request.set_value(service);
  grpc::CompletionQueue queue;
  auto stream = HealthStub(channel).PrepareCall(
      &context, "/grpc.health.v1.Health/Watch", &queue);
  stream->StartCall(nullptr);
  bool ended_by_us = false;
  if (Done(queue)) {
    stream->WriteLast(request, grpc::WriteOptions(), nullptr);
    HealthResponse response;
    bool readable = Done(queue);
    while (readable) {
      stream->Read(&response, nullptr);
      readable = Done(queue);
      if (readable && !on_change(FromWire(response))) {
        ended_by_us = true;
        context.TryCancel();
        break;
      }
    }
  }
  grpc::Status status;
  stream->Finish(&status, nullptr);
  Done(queue);
  return ended_by_us ? grpc::Status::OK : status;
}

}  // namespace attnd::client
