// The client side of the standard health protocol, grpc.health.v1.
#ifndef ATTND_CLIENT_HEALTH_H_
#define ATTND_CLIENT_HEALTH_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>

#include "client/client.h"

namespace attnd::client {

// One Check call. `health` is set when the status is OK.
grpc::Status CheckHealthOnce(const std::shared_ptr<grpc::Channel>& channel,
                             grpc::ClientContext& context,
                             const std::string& service, Health* health);

// One Watch stream, see Client::WatchHealth.
grpc::Status WatchHealthOnce(const std::shared_ptr<grpc::Channel>& channel,
                             grpc::ClientContext& context,
                             const std::string& service,
                             const std::function<bool(Health)>& on_change);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_HEALTH_H_
