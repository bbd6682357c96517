#include "client/client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "attnd/v1/attention.grpc.pb.h"
#include "client/channel.h"
#include "client/health.h"
#include "client/random.h"
#include "client/retry.h"
#include "client/status_from_wire.h"
#include "proto/wire.h"

namespace attnd::client {
namespace {

static_assert(kDefaultMessageBytes == wire::kDefaultMessageBytes);

// Lets a server tell new demand from repeated demand. gRPC's own key for it,
// grpc-previous-rpc-attempts, cannot be set from outside: its core removes it.
constexpr char kPreviousAttempts[] = "x-attnd-previous-attempts";

// Time left until a deadline, by a clock that nobody sets.
class Countdown {
 public:
  explicit Countdown(absl::Duration timeout) : timeout_(timeout) {}
  absl::Duration left() const {
    return timeout_ -
           absl::FromChrono(std::chrono::steady_clock::now() - start_);
  }

 private:
  absl::Duration timeout_;
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

// When `left` is over on the clock that gRPC wants; anything beyond ten years
// is no deadline, and would overflow.
std::chrono::system_clock::time_point DeadlineIn(absl::Duration left) {
  if (left > absl::Hours(24 * 3653)) {
    return std::chrono::system_clock::time_point::max();
  }
  return std::chrono::system_clock::now() + absl::ToChronoMicroseconds(left);
}

// Uniform in [0, 1), different for clients that fail at the same moment.
double Jitter() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  thread_local Random random(static_cast<uint64_t>(now.count()));
  return random.Uniform();
}

absl::Status FromGrpc(const grpc::Status& status) {
  return StatusFromWire(status.error_code(), status.error_message(),
                        status.error_details());
}

}  // namespace

struct Client::Impl {
  ClientOptions options;
  std::shared_ptr<grpc::Channel> channel;
  std::shared_ptr<grpc::Channel> health_channel;
  std::unique_ptr<v1::AttentionScoring::Stub> stub;

  void Prepare(grpc::ClientContext& context, const CallOptions& call,
               absl::Duration left) const;
  absl::Status CheckSize(const google::protobuf::Message& request) const;

  // `attempt(context)` makes one call and returns a grpc::Status.
  template <typename Attempt>
  absl::Status Run(const CallOptions& call, Attempt attempt) const;

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(
      grpc::Status (v1::AttentionScoring::Stub::*method)(grpc::ClientContext*,
                                                         const Request&,
                                                         Response*),
      const Request& request, const CallOptions& call) const;
};

void Client::Impl::Prepare(grpc::ClientContext& context,
                           const CallOptions& call, absl::Duration left) const {
  context.set_deadline(DeadlineIn(left));
  context.set_wait_for_ready(call.wait_for_ready);
  for (const auto& [key, value] : options.metadata) {
    context.AddMetadata(key, value);
  }
  for (const auto& [key, value] : call.metadata) {
    context.AddMetadata(key, value);
  }
}

absl::Status Client::Impl::CheckSize(
    const google::protobuf::Message& request) const {
  const size_t bytes = request.ByteSizeLong();
  if (bytes <= static_cast<size_t>(options.message_bytes)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "request: ", bytes, " bytes, expected at most ", options.message_bytes,
      " (ClientOptions::message_bytes); send fewer rows at a time, or raise "
      "this limit and the server's limits.message_bytes"));
}

template <typename Attempt>
absl::Status Client::Impl::Run(const CallOptions& call, Attempt attempt) const {
  const Countdown countdown(call.timeout.value_or(options.timeout));
  const int max_attempts = call.max_attempts.value_or(options.max_attempts);
  CallReport unused;
  CallReport& report = call.report != nullptr ? *call.report : unused;
  report = CallReport();
  while (true) {
    grpc::ClientContext context;
    Prepare(context, call, countdown.left());
    if (report.attempts > 0) {
      context.AddMetadata(kPreviousAttempts, absl::StrCat(report.attempts));
    }
    const absl::Status status = FromGrpc(attempt(&context));
    ++report.attempts;
    if (status.ok()) return status;
    const std::optional<absl::Duration> wait = RetryWait(
        status, report.attempts, max_attempts, countdown.left(), Jitter());
    if (!wait) return status;
    absl::SleepFor(*wait);
    report.waited += *wait;
  }
}

template <typename Request, typename Response>
absl::StatusOr<Response> Client::Impl::Call(
    grpc::Status (v1::AttentionScoring::Stub::*method)(grpc::ClientContext*,
                                                       const Request&,
                                                       Response*),
    const Request& request, const CallOptions& call) const {
  if (absl::Status size = CheckSize(request); !size.ok()) return size;
  Response response;
  absl::Status status = Run(call, [&](grpc::ClientContext* context) {
    return (stub.get()->*method)(context, request, &response);
  });
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<Client> Client::Create(ClientOptions options) {
  if (absl::Status bad = CheckOptions(options); !bad.ok()) return bad;
  if (auto target = TargetOf(options.endpoints); !target.ok()) {
    return target.status();
  }
  auto impl = std::make_unique<Impl>();
  impl->channel = MakeChannel(options, ChannelUse::kCalls);
  impl->health_channel = MakeChannel(options, ChannelUse::kHealth);
  impl->stub = v1::AttentionScoring::NewStub(impl->channel);
  impl->options = std::move(options);
  return Client(std::move(impl));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

absl::StatusOr<v1::AttendResponse> Client::Attend(
    const v1::AttendRequest& request, const CallOptions& call) const {
  return impl_->Call(&v1::AttentionScoring::Stub::Attend, request, call);
}

absl::StatusOr<v1::EstimateResponse> Client::Estimate(
    const v1::EstimateRequest& request, const CallOptions& call) const {
  return impl_->Call(&v1::AttentionScoring::Stub::Estimate, request, call);
}

absl::StatusOr<v1::ListEncodingsResponse> Client::ListEncodings(
    const v1::ListEncodingsRequest& request, const CallOptions& call) const {
  return impl_->Call(&v1::AttentionScoring::Stub::ListEncodings, request, call);
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(
    const CallOptions& call) const {
  return impl_->Call(&v1::AttentionScoring::Stub::GetServerInfo,
                     v1::GetServerInfoRequest(), call);
}

absl::StatusOr<Health> Client::CheckHealth(const std::string& service,
                                           const CallOptions& call) const {
  Health health = Health::kUnknown;
  absl::Status status = impl_->Run(call, [&](grpc::ClientContext* context) {
    return CheckHealthOnce(impl_->health_channel, *context, service, &health);
  });
  if (!status.ok()) return status;
  return health;
}

absl::Status Client::WatchHealth(const std::string& service,
                                 const std::function<bool(Health)>& on_change,
                                 const CallOptions& call) const {
  grpc::ClientContext context;
  impl_->Prepare(context, call,
                 call.timeout.value_or(absl::InfiniteDuration()));
  return FromGrpc(
      WatchHealthOnce(impl_->health_channel, context, service, on_change));
}

bool Client::WaitUntilReady(absl::Duration timeout) const {
  return impl_->channel->WaitForConnected(DeadlineIn(timeout));
}

}  // namespace attnd::client
