// A unary call whose answer may be work for a worker: admitted with what it is
// predicted to cost, like any other request.
#ifndef ATTND_SERVER_WORKER_CALL_H_
#define ATTND_SERVER_WORKER_CALL_H_

#include <grpcpp/support/server_callback.h>

#include <atomic>

#include "server/attend_work.h"
#include "server/call.h"
#include "server/executor.h"
#include "server/service_context.h"

namespace attnd::server {

// Derive, and Begin with Submit or End. Deletes itself in OnDone.
class WorkerCall : public grpc::ServerUnaryReactor, private Job {
 protected:
  WorkerCall(const ServiceContext& context, Method method,
             grpc::CallbackServerContext& rpc);

  // Fills the reply, on a worker; soon after `stop` becomes true the status no
  // longer matters.
  virtual absl::Status AnswerOnWorker(const std::atomic<bool>& stop) = 0;

  // What keeps the caller out; OK if nothing.
  const absl::Status& access() const { return record_.access(); }
  // Asks for admission; if that is OK a worker will answer, and this may be
  // gone already.
  absl::Status Submit(double predicted_seconds, int priority);
  // Answers now, with the reply if OK.
  void End(const absl::Status& status) { End(Outcome{.status = status}); }

  const ServiceContext& context_;

 private:
  CallRecord record_;

 protected:
  const Arrival arrival_;

 private:
  // Job.
  absl::Status Start() override;
  absl::Status Run(int64_t unit, Workspace* workspace,
                   const std::atomic<bool>& stop) override;
  void Done(const JobResult& result) override;
  void End(const Outcome& outcome);

  // Reactor.
  void OnCancel() override {
    context_.executor.Cancel(*this, record_.WhyLeft());
  }
  void OnDone() override { delete this; }

  Admission::Ticket ticket_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_WORKER_CALL_H_
