#include "client/load/caller.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/async_unary_call.h>

#include "absl/strings/str_cat.h"
#include "client/channel.h"
#include "client/status_from_wire.h"

namespace attnd::client {
namespace {

constexpr char kMethod[] = "/attnd.v1.AttentionScoring/Attend";

// When something `timeout` ahead is over, on the clocks that gRPC takes.
std::chrono::system_clock::time_point DeadlineIn(absl::Duration timeout) {
  return std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout);
}

}  // namespace

struct Caller::Slot {
  // A context serves one call only.
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> call;
  grpc::ByteBuffer response;
  grpc::Status status;
  SteadyTime started;
  bool busy = false;
};

grpc::ByteBuffer Serialize(const v1::AttendRequest& request) {
  grpc::ByteBuffer buffer;
  bool own_buffer = false;
  grpc::SerializationTraits<v1::AttendRequest>::Serialize(request, &buffer,
                                                          &own_buffer);
  return buffer;
}

Caller::Caller(const ClientOptions& options, int slots)
    : timeout_(options.timeout), metadata_(options.metadata) {
  for (int i = 0; i < slots; ++i) slots_.push_back(std::make_unique<Slot>());
}

absl::StatusOr<std::unique_ptr<Caller>> Caller::Connect(
    const ClientOptions& options, int connections, int slots) {
  if (absl::Status bad = CheckOptions(options); !bad.ok()) return bad;
  if (auto target = TargetOf(options.endpoints); !target.ok()) {
    return target.status();
  }
  std::unique_ptr<Caller> caller(new Caller(options, slots));
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < connections; ++i) {
    channels.push_back(MakeChannel(options, ChannelUse::kCalls));
    channels.back()->GetState(/*try_to_connect=*/true);
  }
  const auto deadline = DeadlineIn(options.timeout);
  for (int i = 0; i < connections; ++i) {
    if (!channels[i]->WaitForConnected(deadline)) {
      return absl::UnavailableError(
          absl::StrCat("connection ", i + 1, " of ", connections, " to ",
                       *TargetOf(options.endpoints), " was not ready within ",
                       absl::FormatDuration(options.timeout)));
    }
    caller->stubs_.push_back(std::make_unique<grpc::GenericStub>(channels[i]));
  }
  return caller;
}

Caller::~Caller() {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot->busy) slot->context->TryCancel();
  }
  queue_.Shutdown();
  void* tag;
  bool ok;
  while (queue_.Next(&tag, &ok)) {
  }
}

void Caller::Start(int slot, const grpc::ByteBuffer& request) {
  Slot& place = *slots_[slot];
  place.call.reset();  // before the context that it uses
  place.context.emplace();
  place.context->set_deadline(DeadlineIn(timeout_));
  for (const auto& [key, value] : metadata_) {
    place.context->AddMetadata(key, value);
  }
  place.response.Clear();
  place.busy = true;
  ++in_flight_;
  place.started = std::chrono::steady_clock::now();
  place.call = stubs_[slot % stubs_.size()]->PrepareUnaryCall(
      &*place.context, kMethod, request, &queue_);
  place.call->StartCall();
  place.call->Finish(&place.response, &place.status,
                     reinterpret_cast<void*>(static_cast<intptr_t>(slot)));
}

std::optional<CompletedCall> Caller::Next(SteadyTime until) {
  void* tag = nullptr;
  bool ok = false;
  const auto left = std::max(until - std::chrono::steady_clock::now(),
                             std::chrono::steady_clock::duration::zero());
  const auto deadline = std::chrono::system_clock::now() +
                        std::min<std::chrono::steady_clock::duration>(
                            left, std::chrono::hours(24));
  if (queue_.AsyncNext(&tag, &ok, deadline) !=
      grpc::CompletionQueue::GOT_EVENT) {
    return {};
  }
  const SteadyTime ended = std::chrono::steady_clock::now();
  const int slot = static_cast<int>(reinterpret_cast<intptr_t>(tag));
  Slot& place = *slots_[slot];
  place.busy = false;
  --in_flight_;
  return CompletedCall{
      .slot = slot,
      .started = place.started,
      .ended = ended,
      .status = StatusFromWire(place.status.error_code(),
                               place.status.error_message(),
                               place.status.error_details()),
      .response_bytes = static_cast<int64_t>(place.response.Length())};
}

}  // namespace attnd::client
