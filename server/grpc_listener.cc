#include "server/grpc_listener.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace attnd::server {
namespace {

void SetTransport(const v1::Limits& limits, const Machine& machine,
                  grpc::ServerBuilder& builder) {
  const int message_bytes = static_cast<int>(limits.message_bytes());
  builder.SetMaxReceiveMessageSize(message_bytes);
  builder.SetMaxSendMessageSize(message_bytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits.streams_per_connection()));
  // With the default two servers share a port without a word.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients that ping during a long quiet request must not be sent away.
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // gRPC buffers whole messages before any code of ours sees them.
  grpc::ResourceQuota quota("attnd");
  quota.Resize(static_cast<size_t>(machine.UsableMemory() / 4));
  builder.SetResourceQuota(quota);
}

std::string RealAddress(const std::string& configured, int port) {
  if (absl::StartsWith(configured, "unix:")) return configured;
  return absl::StrCat(configured.substr(0, configured.rfind(':')), ":", port);
}

absl::Status SetUnixMode(const v1::Listener& listener) {
  if (!absl::StartsWith(listener.address(), "unix:")) return absl::OkStatus();
  const std::string path = listener.address().substr(5);
  const auto mode =
      static_cast<mode_t>(std::stoul(listener.unix_mode(), nullptr, 8));
  if (chmod(path.c_str(), mode) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(path, ": cannot set its mode"));
}

}  // namespace

absl::StatusOr<GrpcListener> ListenGrpc(const v1::ServerConfig& config,
                                        const Machine& machine,
                                        grpc::Service& service) {
  // Both affect servers built from now on; there is no other way to ask.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetTransport(config.limits(), machine, builder);
  builder.RegisterService(&service);
  const auto& listeners = config.listeners();
  std::vector<int> ports(listeners.size(), 0);
  for (int i = 0; i < listeners.size(); ++i) {
    builder.AddListeningPort(listeners[i].address(),
                             grpc::InsecureServerCredentials(), &ports[i]);
  }
  GrpcListener out;
  out.server = builder.BuildAndStart();
  for (int i = 0; i < listeners.size(); ++i) {
    if (out.server == nullptr || ports[i] == 0) {
      return absl::UnavailableError(
          absl::StrCat("listeners[", i, "].address ", listeners[i].address(),
                       ": cannot listen (is the port taken?)"));
    }
    out.addresses.push_back(RealAddress(listeners[i].address(), ports[i]));
    absl::Status mode = SetUnixMode(listeners[i]);
    if (!mode.ok()) return mode;
  }
  return out;
}

}  // namespace attnd::server
