#include "client/load/unary_transport.h"

#include <grpcpp/client_context.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/async_unary_call.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/status_from_wire.h"

namespace attnd::client {
namespace {

constexpr char kMethod[] = "/attnd.v1.AttentionScoring/Attend";
constexpr char kPreviousAttempts[] = "x-attnd-previous-attempts";

}  // namespace

struct UnaryTransport::Slot {
  // A context serves one call only.
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> call;
  grpc::ByteBuffer answer;
  grpc::Status status;
  int64_t started_ns = 0;
};

grpc::ByteBuffer Serialize(const v1::AttendRequest& request) {
  grpc::ByteBuffer buffer;
  bool own_buffer = false;
  grpc::SerializationTraits<v1::AttendRequest>::Serialize(request, &buffer,
                                                          &own_buffer);
  return buffer;
}

UnaryTransport::UnaryTransport(const ClientOptions& options, Channels channels,
                               int slots, const std::vector<Payload>& payloads)
    : metadata_(options.metadata),
      payloads_(payloads),
      channels_(std::move(channels)) {
  for (const std::shared_ptr<grpc::Channel>& channel : channels_) {
    stubs_.push_back(std::make_unique<grpc::GenericStub>(channel));
  }
  for (int i = 0; i < slots; ++i) slots_.push_back(std::make_unique<Slot>());
}

UnaryTransport::~UnaryTransport() {
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

void UnaryTransport::Start(const Attempt& attempt) {
  Slot& place = *slots_[attempt.slot];
  const Payload& payload = payloads_[attempt.request];
  place.call.reset();  // before the context that it uses
  place.context.emplace();
  place.context->set_deadline(GrpcDeadline(attempt.timeout_ns));
  for (const auto& [key, value] : metadata_) {
    place.context->AddMetadata(key, value);
  }
  for (const auto& [key, value] : payload.metadata) {
    place.context->AddMetadata(key, value);
  }
  if (attempt.previous > 0) {
    place.context->AddMetadata(kPreviousAttempts,
                               absl::StrCat(attempt.previous));
  }
  place.answer.Clear();
  place.started_ns = SteadyNs();
  place.call = stubs_[attempt.slot % stubs_.size()]->PrepareUnaryCall(
      &*place.context, kMethod, payload.bytes, &queue_);
  place.call->StartCall();
  place.call->Finish(
      &place.answer, &place.status,
      reinterpret_cast<void*>(static_cast<intptr_t>(attempt.slot)));
}

std::optional<AttemptEnd> UnaryTransport::Next() {
  void* tag = nullptr;
  bool ok = false;
  queue_.Next(&tag, &ok);
  if (tag == &wake_) return std::nullopt;
  AttemptEnd end;
  end.ended_ns = SteadyNs();
  end.slot = static_cast<int>(reinterpret_cast<intptr_t>(tag));
  Slot& place = *slots_[end.slot];
  end.started_ns = place.started_ns;
  end.status = place.status.ok() ? absl::OkStatus()
                                 : StatusFromWire(place.status.error_code(),
                                                  place.status.error_message(),
                                                  place.status.error_details());
  end.response_bytes = static_cast<int64_t>(place.answer.Length());
  end.endpoint = endpoints_.NumberOf(place.context->peer());
  return end;
}

void UnaryTransport::Wake() {
  wake_.Set(&queue_, gpr_now(GPR_CLOCK_MONOTONIC), &wake_);
}

grpc::ByteBuffer UnaryTransport::TakeAnswer(int slot) {
  return std::move(slots_[slot]->answer);
}

std::string UnaryTransport::EndpointName(int endpoint) {
  return endpoints_.Name(endpoint);
}

}  // namespace attnd::client
