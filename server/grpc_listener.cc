#include "server/grpc_listener.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/tls.h"

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
  // Clients behind a balancer of connections find new replicas after a while;
  // what is in flight then may take as long as any request.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, 300'000);
  builder.AddChannelArgument(
      GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
      static_cast<int>(std::min(1e3 * limits.deadline_seconds(), 2e9)));
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

// No reflection on this server: the library's switch is for all that are built.
class NoReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    std::erase_if(*plugins, [](const auto& plugin) {
      return plugin->name() == "proto_server_reflection";
    });
  }
};

absl::Status CannotListen(int listener, absl::string_view field,
                          absl::string_view address) {
  return absl::UnavailableError(
      absl::StrCat("listeners[", listener, "].", field, " ", address,
                   ": cannot listen (is the port taken?)"));
}

absl::Status ListenAll(const v1::ServerConfig& config, const Machine& machine,
                       grpc::Service& service, GrpcListener& out) {
  grpc::ServerBuilder builder;
  SetTransport(config.limits(), machine, builder);
  builder.RegisterService(&service);
  const auto& listeners = config.listeners();
  std::vector<int> ports(listeners.size(), 0);
  for (int i = 0; i < listeners.size(); ++i) {
    builder.AddListeningPort(listeners[i].address(),
                             listeners[i].has_tls()
                                 ? MakeTlsCredentials(listeners[i].tls())
                                 : grpc::InsecureServerCredentials(),
                             &ports[i]);
  }
  // A socket's file is never more open than it will be.
  const mode_t before = umask(0177);
  out.server = builder.BuildAndStart();
  umask(before);
  for (int i = 0; i < listeners.size(); ++i) {
    if (out.server == nullptr || ports[i] == 0) {
      return CannotListen(i, "address", listeners[i].address());
    }
    out.addresses.push_back(RealAddress(listeners[i].address(), ports[i]));
    absl::Status mode = SetUnixMode(listeners[i]);
    if (!mode.ok()) return mode;
  }
  return absl::OkStatus();
}

absl::Status ListenForHealth(const v1::ServerConfig& config,
                             const Machine& machine, GrpcListener& out) {
  grpc::ServerBuilder builder;
  SetTransport(config.limits(), machine, builder);
  const auto& listeners = config.listeners();
  std::vector<int> ports(listeners.size(), 0);
  std::vector<int> asked;
  for (int i = 0; i < listeners.size(); ++i) {
    const std::string& address = listeners[i].tls().health_address();
    if (address.empty()) continue;
    asked.push_back(i);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(),
                             &ports[i]);
  }
  if (asked.empty()) return absl::OkStatus();
  builder.SetOption(std::make_unique<NoReflection>());
  // gRPC starts no server without a service of ours; this one knows no method.
  out.unimplemented = std::make_unique<grpc::CallbackGenericService>();
  builder.RegisterCallbackGenericService(out.unimplemented.get());
  out.health_server = builder.BuildAndStart();
  for (const int i : asked) {
    const std::string& address = listeners[i].tls().health_address();
    if (out.health_server == nullptr || ports[i] == 0) {
      return CannotListen(i, "tls.health_address", address);
    }
    out.health_addresses.push_back(RealAddress(address, ports[i]));
  }
  return absl::OkStatus();
}

}  // namespace

void GrpcListener::SetHealth(const std::string& name, bool serving) const {
  for (const auto* one : {server.get(), health_server.get()}) {
    if (one == nullptr) continue;
    one->GetHealthCheckService()->SetServingStatus(name, serving);
  }
}

absl::StatusOr<GrpcListener> ListenGrpc(const v1::ServerConfig& config,
                                        const Machine& machine,
                                        grpc::Service& service) {
  for (const v1::Listener& listener : config.listeners()) {
    if (!listener.has_tls()) continue;
    absl::Status usable = CheckTlsFiles(listener.tls());
    if (!usable.ok()) return usable;
  }
  // Both affect servers built from now on; there is no other way to ask.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  GrpcListener out;
  absl::Status status = ListenForHealth(config, machine, out);
  if (status.ok()) status = ListenAll(config, machine, service, out);
  if (!status.ok()) return status;
  return out;
}

}  // namespace attnd::server
