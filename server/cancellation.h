// Cancels a call that may be over.
#ifndef ATTND_SERVER_CANCELLATION_H_
#define ATTND_SERVER_CANCELLATION_H_

#include <grpcpp/server_context.h>

#include <mutex>

namespace attnd::server {

// Shared by the call and by whoever may cancel it from outside. Thread-safe.
class Cancellation {
 public:
  explicit Cancellation(grpc::CallbackServerContext& rpc) : rpc_(&rpc) {}

  // No effect once the call is over. No reactor's method is called from within.
  void Cancel() {
    std::lock_guard lock(mutex_);
    if (rpc_ != nullptr) rpc_->TryCancel();
  }
  // The call is over.
  void Forget() {
    std::lock_guard lock(mutex_);
    rpc_ = nullptr;
  }

 private:
  std::mutex mutex_;  // guards rpc_
  grpc::CallbackServerContext* rpc_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_CANCELLATION_H_
