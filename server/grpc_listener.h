// The gRPC server of a configuration: ports, limits, keepalive, health,
// reflection.
#ifndef ATTND_SERVER_GRPC_LISTENER_H_
#define ATTND_SERVER_GRPC_LISTENER_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/config.pb.h"
#include "server/machine.h"

namespace attnd::server {

struct GrpcListener {
  std::unique_ptr<grpc::Server> server;
  // Of each listener, with the real port.
  std::vector<std::string> addresses;
};

// Serves `service` (borrowed) from the moment it returns, and even before; the
// health service says SERVING under "" as long as nobody sets it otherwise.
// UNAVAILABLE names the listener whose port is taken.
absl::StatusOr<GrpcListener> ListenGrpc(const v1::ServerConfig& config,
                                        const Machine& machine,
                                        grpc::Service& service);

}  // namespace attnd::server

#endif  // ATTND_SERVER_GRPC_LISTENER_H_
