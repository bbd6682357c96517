// The gRPC service attnd.v1.AttentionScoring on the callback API.
#ifndef ATTND_SERVER_ATTENTION_SERVICE_H_
#define ATTND_SERVER_ATTENTION_SERVICE_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/service_type.h>

#include <memory>

#include "server/service_context.h"

namespace attnd::server {

// The context is borrowed and must outlive every call. Handlers run on gRPC
// threads and never block or compute; no exception leaves them.
struct AttentionService {
  // All methods but Attend, which it leaves to the generic service.
  std::unique_ptr<grpc::Service> methods;
  // Attend, and UNIMPLEMENTED for methods that no service has.
  std::unique_ptr<grpc::CallbackGenericService> attend;
};
AttentionService MakeAttentionService(const ServiceContext& context);

}  // namespace attnd::server

#endif  // ATTND_SERVER_ATTENTION_SERVICE_H_
