#include "client/load/stream_transport.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <queue>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/load/stream_messages.h"
#include "client/status_from_wire.h"

namespace attnd::client {
namespace {

constexpr char kMethod[] = "/attnd.v1.AttentionScoring/AttendStream";
// How often time-outs and Wake() are looked at even if nothing else happens.
constexpr int64_t kLookEveryNs = 50'000'000;

}  // namespace

struct StreamTransport::State {
  enum class Step { kOpen, kWrite, kRead, kFinish };

  struct Stream;
  // What a completion queue hands back.
  struct Event {
    Step step;
    Stream* stream;
  };

  struct Stream {
    std::unique_ptr<grpc::GenericStub> stub;
    std::unique_ptr<grpc::ClientContext> context;
    // Null = closed.
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
    std::deque<int> to_write;
    grpc::ByteBuffer incoming;
    grpc::Status status;
    bool ready = false;
    bool writing = false;
    bool broken = false;
    // Operations whose events have not come yet.
    int pending = 0;
    int endpoint = -1;
    Event open, write, read, finish;
  };

  struct Slot {
    Stream* stream = nullptr;
    bool active = false;
    int request = 0;
    // Tells an answer that comes too late from that of the next attempt.
    int64_t sequence = 0;
    int64_t started_ns = 0;
    grpc::ByteBuffer answer;
  };

  struct TimeOut {
    int64_t at_ns;
    int slot;
    int64_t sequence;
    bool operator<(const TimeOut& other) const { return at_ns > other.at_ns; }
  };

  void Open(Stream& stream, const Payload& payload);
  void WriteNext(Stream& stream);
  void Handle(const Event& event, bool ok);
  void Break(Stream& stream);
  void Close(Stream& stream);
  void TakeAnswer(Stream& stream);
  void End(int slot, absl::Status status, int64_t bytes);
  void EndTimeOuts(int64_t now_ns);

  std::mutex mutex;
  std::vector<std::pair<std::string, std::string>> metadata;
  // The slices of each request.
  std::vector<std::vector<grpc::Slice>> requests;
  grpc::CompletionQueue queue;
  Channels channels;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<Slot> slots;
  std::priority_queue<TimeOut> time_outs;
  std::deque<AttemptEnd> ends;
  bool woken = false;
  EndpointNames endpoints;
};

void StreamTransport::State::Open(Stream& stream, const Payload& payload) {
  stream.context = std::make_unique<grpc::ClientContext>();
  for (const auto& [key, value] : metadata) {
    stream.context->AddMetadata(key, value);
  }
  for (const auto& [key, value] : payload.metadata) {
    stream.context->AddMetadata(key, value);
  }
  stream.ready = stream.writing = stream.broken = false;
  stream.call = stream.stub->PrepareCall(stream.context.get(), kMethod, &queue);
  ++stream.pending;
  stream.call->StartCall(&stream.open);
}

void StreamTransport::State::WriteNext(Stream& stream) {
  if (!stream.ready || stream.writing || stream.broken) return;
  // An attempt that timed out while it waited is not sent.
  while (!stream.to_write.empty() && !slots[stream.to_write.front()].active) {
    stream.to_write.pop_front();
  }
  if (stream.to_write.empty()) return;
  const int slot = stream.to_write.front();
  stream.to_write.pop_front();
  stream.writing = true;
  ++stream.pending;
  stream.call->Write(
      StreamRequest(requests[slots[slot].request],
                    absl::StrCat(slot, ".", slots[slot].sequence)),
      &stream.write);
}

void StreamTransport::State::End(int slot, absl::Status status, int64_t bytes) {
  Slot& place = slots[slot];
  place.active = false;
  ends.push_back({.slot = slot,
                  .started_ns = place.started_ns,
                  .ended_ns = SteadyNs(),
                  .status = std::move(status),
                  .response_bytes = bytes,
                  .endpoint = place.stream->endpoint});
}

void StreamTransport::State::TakeAnswer(Stream& stream) {
  const auto bytes = static_cast<int64_t>(stream.incoming.Length());
  // Reading moves through the buffer; the copy shares its bytes.
  grpc::ByteBuffer copy = stream.incoming;
  absl::StatusOr<StreamAnswer> answer = ReadStreamAnswer(&copy);
  if (!answer.ok()) return;
  const std::pair<absl::string_view, absl::string_view> id =
      absl::StrSplit(answer->request_id, absl::MaxSplits('.', 1));
  int slot;
  int64_t sequence;
  if (!absl::SimpleAtoi(id.first, &slot) ||
      !absl::SimpleAtoi(id.second, &sequence) || slot < 0 ||
      slot >= static_cast<int>(slots.size()) || !slots[slot].active ||
      slots[slot].sequence != sequence) {
    return;
  }
  slots[slot].answer.Swap(&stream.incoming);
  End(slot, std::move(answer->status), bytes);
}

// Ends the stream; its attempts end when gRPC has said why.
void StreamTransport::State::Break(Stream& stream) {
  if (stream.broken) return;
  stream.broken = true;
  ++stream.pending;
  stream.call->Finish(&stream.status, &stream.finish);
}

void StreamTransport::State::Close(Stream& stream) {
  const absl::Status status =
      stream.status.ok() ? absl::UnavailableError("the server ended the stream")
                         : StatusFromWire(stream.status.error_code(),
                                          stream.status.error_message(),
                                          stream.status.error_details());
  stream.call.reset();
  stream.context.reset();
  stream.to_write.clear();
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if (slots[slot].active && slots[slot].stream == &stream) {
      End(static_cast<int>(slot), status, 0);
    }
  }
}

void StreamTransport::State::Handle(const Event& event, bool ok) {
  Stream& stream = *event.stream;
  --stream.pending;
  switch (event.step) {
    case Step::kOpen:
      stream.ready = ok;
      if (ok) stream.endpoint = endpoints.NumberOf(stream.context->peer());
      break;
    case Step::kWrite:
      stream.writing = false;
      break;
    case Step::kRead:
      if (ok) TakeAnswer(stream);
      break;
    case Step::kFinish:
      break;
  }
  if (!ok && event.step != Step::kFinish) Break(stream);
  if (stream.broken) {
    if (stream.pending == 0) Close(stream);
    return;
  }
  if (event.step != Step::kWrite) {
    ++stream.pending;
    stream.call->Read(&stream.incoming, &stream.read);
  }
  WriteNext(stream);
}

void StreamTransport::State::EndTimeOuts(int64_t now_ns) {
  while (!time_outs.empty() && time_outs.top().at_ns <= now_ns) {
    const TimeOut time_out = time_outs.top();
    time_outs.pop();
    const Slot& place = slots[time_out.slot];
    if (place.active && place.sequence == time_out.sequence) {
      End(time_out.slot,
          absl::DeadlineExceededError("no answer on the stream in time"), 0);
    }
  }
}

StreamTransport::StreamTransport(const ClientOptions& options,
                                 Channels channels, int slots,
                                 const std::vector<Payload>& payloads)
    : payloads_(payloads), state_(std::make_unique<State>()) {
  State& state = *state_;
  state.metadata = options.metadata;
  state.channels = std::move(channels);
  for (const Payload& payload : payloads) {
    state.requests.emplace_back();
    payload.bytes.Dump(&state.requests.back());
  }
  for (const std::shared_ptr<grpc::Channel>& channel : state.channels) {
    auto stream = std::make_unique<State::Stream>();
    stream->stub = std::make_unique<grpc::GenericStub>(channel);
    stream->open = {State::Step::kOpen, stream.get()};
    stream->write = {State::Step::kWrite, stream.get()};
    stream->read = {State::Step::kRead, stream.get()};
    stream->finish = {State::Step::kFinish, stream.get()};
    state.streams.push_back(std::move(stream));
  }
  state.slots.resize(slots);
  for (int i = 0; i < slots; ++i) {
    state.slots[i].stream = state.streams[i % state.streams.size()].get();
  }
}

StreamTransport::~StreamTransport() {
  State& state = *state_;
  for (const auto& stream : state.streams) {
    if (stream->context != nullptr) stream->context->TryCancel();
  }
  const auto open = [](const auto& stream) { return stream->call != nullptr; };
  void* tag;
  bool ok;
  while (std::any_of(state.streams.begin(), state.streams.end(), open) &&
         state.queue.Next(&tag, &ok)) {
    state.Handle(*static_cast<State::Event*>(tag), ok);
  }
  state.queue.Shutdown();
  while (state.queue.Next(&tag, &ok)) {
  }
}

void StreamTransport::Start(const Attempt& attempt) {
  State& state = *state_;
  std::lock_guard<std::mutex> lock(state.mutex);
  State::Slot& place = state.slots[attempt.slot];
  place.active = true;
  place.request = attempt.request;
  ++place.sequence;
  place.started_ns = SteadyNs();
  place.answer.Clear();
  state.time_outs.push(
      {place.started_ns + attempt.timeout_ns, attempt.slot, place.sequence});
  State::Stream& stream = *place.stream;
  stream.to_write.push_back(attempt.slot);
  if (stream.call == nullptr) {
    state.Open(stream, payloads_[attempt.request]);
  } else {
    state.WriteNext(stream);
  }
}

std::optional<AttemptEnd> StreamTransport::Next() {
  State& state = *state_;
  while (true) {
    int64_t wait_ns = kLookEveryNs;
    {
      std::lock_guard<std::mutex> lock(state.mutex);
      const int64_t now_ns = SteadyNs();
      state.EndTimeOuts(now_ns);
      if (!state.ends.empty()) {
        AttemptEnd end = std::move(state.ends.front());
        state.ends.pop_front();
        return end;
      }
      if (std::exchange(state.woken, false)) return std::nullopt;
      if (!state.time_outs.empty()) {
        wait_ns = std::min(wait_ns, state.time_outs.top().at_ns - now_ns);
      }
    }
    void* tag;
    bool ok;
    if (state.queue.AsyncNext(&tag, &ok, GrpcDeadline(wait_ns)) ==
        grpc::CompletionQueue::GOT_EVENT) {
      std::lock_guard<std::mutex> lock(state.mutex);
      state.Handle(*static_cast<State::Event*>(tag), ok);
    }
  }
}

void StreamTransport::Wake() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->woken = true;
}

grpc::ByteBuffer StreamTransport::TakeAnswer(int slot) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return UnwrapStreamAnswer(&state_->slots[slot].answer);
}

std::string StreamTransport::EndpointName(int endpoint) {
  return state_->endpoints.Name(endpoint);
}

}  // namespace attnd::client
