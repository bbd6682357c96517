#include "client/load/channels.h"

#include <grpcpp/client_context.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/channel.h"
#include "client/health.h"

namespace attnd::client {

namespace {

constexpr int64_t kReasonTimeNs = 1'000'000'000;
constexpr std::chrono::seconds kTellAfter(1);
// How often a wait looks at the stop flag.
constexpr std::chrono::milliseconds kLookEvery(100);

using Clock = std::chrono::system_clock;  // gRPC's deadlines

// Why a channel does not become ready, as gRPC tells a call that does not wait
// for it.
std::string WhyNotReady(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(kReasonTimeNs));
  Health health;
  const grpc::Status status = CheckHealthOnce(channel, context, "", &health);
  return status.ok() ||
                 status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED
             ? "no answer, and no refusal either"
             : status.error_message();
}

// Waits for channels, and tells of it once.
class Wait {
 public:
  Wait(const ClientOptions& options, const std::string& target,
       const Waiting& waiting)
      : target_(target),
        timeout_(absl::FormatDuration(options.timeout)),
        deadline_(GrpcDeadline(absl::ToInt64Nanoseconds(options.timeout))),
        waiting_(waiting) {}

  absl::Status For(const std::shared_ptr<grpc::Channel>& channel,
                   const std::string& name) {
    while (!channel->WaitForConnected(
        std::min(deadline_, Clock::now() + kLookEvery))) {
      if (waiting_.stop != nullptr && *waiting_.stop) {
        return absl::CancelledError(
            absl::StrCat("interrupted while waiting for ", target_));
      }
      if (Clock::now() >= deadline_) {
        return absl::UnavailableError(
            absl::StrCat(name, " to ", target_, " was not ready within ",
                         timeout_, ": ", WhyNotReady(channel)));
      }
      if (waiting_.tell && Clock::now() - start_ >= kTellAfter) {
        waiting_.tell(absl::StrCat("waiting for ", target_, ", at most ",
                                   timeout_,
                                   " (--timeout): ", WhyNotReady(channel)));
        waiting_.tell = nullptr;
      }
    }
    return absl::OkStatus();
  }

 private:
  std::string target_;
  std::string timeout_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point deadline_;
  Waiting waiting_;
};

}  // namespace

absl::StatusOr<Channels> ConnectChannels(const ClientOptions& options,
                                         int connections,
                                         const Waiting& waiting) {
  if (absl::Status bad = CheckOptions(options); !bad.ok()) return bad;
  const absl::StatusOr<std::string> target = TargetOf(options.endpoints);
  if (!target.ok()) return target.status();
  Channels channels;
  for (int i = 0; i < connections; ++i) {
    channels.push_back(MakeChannel(options, ChannelUse::kCalls));
    channels.back()->GetState(/*try_to_connect=*/true);
  }
  Wait wait(options, *target, waiting);
  for (int i = 0; i < connections; ++i) {
    absl::Status status = wait.For(
        channels[i], absl::StrCat("connection ", i + 1, " of ", connections));
    if (!status.ok()) return status;
  }
  return channels;
}

int EndpointNames::NumberOf(absl::string_view peer) {
  if (peer.empty()) return -1;
  absl::string_view name = peer;
  if (!absl::ConsumePrefix(&name, "ipv4:")) absl::ConsumePrefix(&name, "ipv6:");
  const auto found = numbers_.find(name);
  if (found != numbers_.end()) return found->second;
  const int number = static_cast<int>(names_.size());
  numbers_.emplace(name, number);
  names_.emplace_back(name);
  return number;
}

std::chrono::system_clock::time_point GrpcDeadline(int64_t timeout_ns) {
  return std::chrono::system_clock::now() +
         std::chrono::microseconds(
             std::clamp<int64_t>(timeout_ns / 1000, 0, int64_t{1} << 50));
}

}  // namespace attnd::client
