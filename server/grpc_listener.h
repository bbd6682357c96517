// The gRPC servers of a configuration: ports, limits, keepalive, TLS, health,
// reflection.
#ifndef ATTND_SERVER_GRPC_LISTENER_H_
#define ATTND_SERVER_GRPC_LISTENER_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/config.pb.h"
#include "server/connection_acceptor.h"
#include "server/tls.h"

namespace attnd::server {

struct GrpcListener {
  // What the servers' ports use.
  std::vector<std::unique_ptr<TlsCredentials>> tls;
  std::unique_ptr<grpc::Server> server;
  // Who accepts its connections; to be closed before the server shuts down.
  std::unique_ptr<ConnectionAcceptor> connections;
  // Of each listener, with the real port.
  std::vector<std::string> addresses;
  // Serves grpc.health.v1 and nothing else, in plain text, for probes that know
  // no TLS; null if no listener asks for it. A server of its own, because every
  // port of a gRPC server serves all its services.
  std::unique_ptr<grpc::CallbackGenericService> unimplemented;
  std::unique_ptr<grpc::Server> health_server;
  std::unique_ptr<ConnectionAcceptor> health_connections;
  std::vector<std::string> health_addresses;

  // Ends at once, calls and all.
  void Stop();
  // Sets one name of the health services.
  void SetHealth(const std::string& name, bool serving) const;
};

// Serves `service` (borrowed), whose generic methods are `generic`'s, from the
// moment it returns, and even before; the health service says SERVING under ""
// as long as nobody sets it otherwise. UNAVAILABLE names the listener whose
// port is taken; INVALID_ARGUMENT the file of TLS that cannot be used. `told`
// learns what came of files of TLS that changed later.
absl::StatusOr<GrpcListener> ListenGrpc(const v1::ServerConfig& config,
                                        grpc::Service& service,
                                        grpc::CallbackGenericService& generic,
                                        const TlsCredentials::Told& told);

}  // namespace attnd::server

#endif  // ATTND_SERVER_GRPC_LISTENER_H_
