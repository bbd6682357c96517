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

// Why a channel does not become ready, as gRPC tells a call that does not wait
// for it; begins with ": ", or is empty.
std::string WhyNotReady(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(kReasonTimeNs));
  Health health;
  const grpc::Status status = CheckHealthOnce(channel, context, "", &health);
  return status.ok() ||
                 status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED
             ? ""
             : absl::StrCat(": ", status.error_message());
}

}  // namespace

absl::StatusOr<Channels> ConnectChannels(const ClientOptions& options,
                                         int connections) {
  if (absl::Status bad = CheckOptions(options); !bad.ok()) return bad;
  const absl::StatusOr<std::string> target = TargetOf(options.endpoints);
  if (!target.ok()) return target.status();
  Channels channels;
  for (int i = 0; i < connections; ++i) {
    channels.push_back(MakeChannel(options, ChannelUse::kCalls));
    channels.back()->GetState(/*try_to_connect=*/true);
  }
  const auto deadline = GrpcDeadline(absl::ToInt64Nanoseconds(options.timeout));
  for (int i = 0; i < connections; ++i) {
    if (!channels[i]->WaitForConnected(deadline)) {
      return absl::UnavailableError(absl::StrCat(
          "connection ", i + 1, " of ", connections, " to ", *target,
          " was not ready within ", absl::FormatDuration(options.timeout),
          WhyNotReady(channels[i])));
    }
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
