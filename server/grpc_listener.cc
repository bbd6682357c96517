#include "server/grpc_listener.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/call.h"
#include "server/receiving.h"

namespace attnd::server {
namespace {

// What gRPC takes of headers before it ends all calls of the connection, whose
// ever they are: far more than CallRecord lets a call have, so that one call
// with too much harms itself alone, and no more than all connections together
// can have on its way within receive_bytes.
int MostHeaderBytes(const v1::Limits& limits) {
  constexpr int64_t kLeast = 2 * kMaxMetadataBytes, kMost = 1 << 20;
  return static_cast<int>(std::clamp<int64_t>(
      limits.receive_bytes() / std::max<int64_t>(1, limits.connections()),
      kLeast, kMost));
}

// Milliseconds as gRPC takes them.
int Milliseconds(double seconds) {
  return static_cast<int>(std::min(1e3 * seconds, 2e9));
}

void SetTransport(const v1::ServerConfig& config,
                  grpc::ServerBuilder& builder) {
  const v1::Limits& limits = config.limits();
  const int message_bytes = static_cast<int>(limits.message_bytes());
  builder.SetMaxReceiveMessageSize(message_bytes);
  builder.SetMaxSendMessageSize(message_bytes);
  // gRPC looks at the size of a message before it is unpacked only: a small one
  // could take all memory.
  for (const auto packed : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(packed, false);
  }
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             MostHeaderBytes(limits));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(limits.streams_per_connection()));
  // Clients that ping during a long quiet request must not be sent away.
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  // Clients that stay connected never look for new replicas; what is in flight
  // when they are sent away may take as long as any request.
  builder.AddChannelArgument(
      GRPC_ARG_MAX_CONNECTION_AGE_MS,
      Milliseconds(config.transport().connection_age_seconds()));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             Milliseconds(limits.deadline_seconds()));
  // Where this is used up gRPC ends whatever call or health check comes next;
  // Receiving keeps messages to an eighth of it, and with what gRPC needs for
  // them to less than all while it gives up what is too much, so that only
  // floods of another kind get there.
  grpc::ResourceQuota quota("attnd");
  quota.Resize(8 * static_cast<size_t>(Receiving::MostHeld(
                       {.bytes = limits.receive_bytes(),
                        .message_bytes = limits.message_bytes()})));
  builder.SetResourceQuota(quota);
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

// Probes and those who watch; their limit is their own, so that they get
// through when others have taken all connections.
constexpr int64_t kHealthConnections = 256;

constexpr auto kFromSocket =
    grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD;

// Where a listener's connections go.
ConnectionAcceptor::Take HandOver(
    std::shared_ptr<grpc::ServerCredentials> credentials,
    grpc::ServerBuilder& builder) {
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc =
      builder.experimental().AddExternalConnectionAcceptor(
          kFromSocket, std::move(credentials));
  return [grpc](int socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
        connection;
    connection.fd = socket;
    grpc->HandleNewConnection(&connection);
  };
}

absl::StatusOr<std::string> ListenOne(int listener, absl::string_view field,
                                      const std::string& address, mode_t mode,
                                      ConnectionAcceptor::Take take,
                                      ConnectionAcceptor& connections) {
  auto real = connections.Listen(address, mode, std::move(take));
  if (real.ok()) return real;
  return absl::UnavailableError(absl::StrCat(
      "listeners[", listener, "].", field, " ", real.status().message()));
}

mode_t ModeOf(const v1::Listener& listener) {
  return listener.unix_mode().empty() ? 0
                                      : static_cast<mode_t>(std::stoul(
                                            listener.unix_mode(), nullptr, 8));
}

absl::Status ListenAll(const v1::ServerConfig& config, grpc::Service& service,
                       grpc::CallbackGenericService& generic,
                       const TlsCredentials::Told& told, GrpcListener& out) {
  grpc::ServerBuilder builder;
  SetTransport(config, builder);
  builder.RegisterService(&service);
  builder.RegisterCallbackGenericService(&generic);
  out.connections =
      std::make_unique<ConnectionAcceptor>(config.limits().connections());
  for (int i = 0; i < config.listeners_size(); ++i) {
    const v1::Listener& listener = config.listeners(i);
    auto credentials = grpc::InsecureServerCredentials();
    if (listener.has_tls()) {
      auto tls = TlsCredentials::Make(listener.tls(), told);
      if (!tls.ok()) return tls.status();
      credentials = (*tls)->ForServer();
      out.tls.push_back(*std::move(tls));
    }
    auto address =
        ListenOne(i, "address", listener.address(), ModeOf(listener),
                  HandOver(std::move(credentials), builder), *out.connections);
    if (!address.ok()) return address.status();
    out.addresses.push_back(*std::move(address));
  }
  out.server = builder.BuildAndStart();
  if (out.server == nullptr) return absl::InternalError("gRPC does not start");
  out.connections->Start();
  return absl::OkStatus();
}

absl::Status ListenForHealth(const v1::ServerConfig& config,
                             GrpcListener& out) {
  grpc::ServerBuilder builder;
  SetTransport(config, builder);
  out.health_connections =
      std::make_unique<ConnectionAcceptor>(kHealthConnections);
  for (int i = 0; i < config.listeners_size(); ++i) {
    const std::string& asked = config.listeners(i).tls().health_address();
    if (asked.empty()) continue;
    auto address =
        ListenOne(i, "tls.health_address", asked, 0,
                  HandOver(grpc::InsecureServerCredentials(), builder),
                  *out.health_connections);
    if (!address.ok()) return address.status();
    out.health_addresses.push_back(*std::move(address));
  }
  if (out.health_addresses.empty()) return absl::OkStatus();
  builder.SetOption(std::make_unique<NoReflection>());
  // gRPC starts no server without a service of ours; this one knows no method.
  out.unimplemented = std::make_unique<grpc::CallbackGenericService>();
  builder.RegisterCallbackGenericService(out.unimplemented.get());
  out.health_server = builder.BuildAndStart();
  if (out.health_server == nullptr) {
    return absl::InternalError("gRPC does not start");
  }
  out.health_connections->Start();
  return absl::OkStatus();
}

}  // namespace

void GrpcListener::SetHealth(const std::string& name, bool serving) const {
  for (const auto* one : {server.get(), health_server.get()}) {
    if (one == nullptr) continue;
    one->GetHealthCheckService()->SetServingStatus(name, serving);
  }
}

void GrpcListener::Stop() {
  for (auto* acceptor : {connections.get(), health_connections.get()}) {
    if (acceptor != nullptr) acceptor->Close();
  }
  for (auto* one : {server.get(), health_server.get()}) {
    if (one != nullptr) one->Shutdown(std::chrono::system_clock::now());
  }
}

absl::StatusOr<GrpcListener> ListenGrpc(const v1::ServerConfig& config,
                                        grpc::Service& service,
                                        grpc::CallbackGenericService& generic,
                                        const TlsCredentials::Told& told) {
  // Both affect servers built from now on; there is no other way to ask.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  GrpcListener out;
  absl::Status status = ListenForHealth(config, out);
  if (status.ok()) status = ListenAll(config, service, generic, told, out);
  if (!status.ok()) return status;
  return out;
}

}  // namespace attnd::server
