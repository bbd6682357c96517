#include "server/server.h"

#include <grpc/grpc.h>
#include <grpcpp/server.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "server/cost_calibration.h"
#include "server/pace.h"
#include "server/self_test.h"
#include "server/server_parts.h"

namespace attnd::server {
namespace {

using std::chrono::steady_clock;

// Head dimensions whose first request finds everything built.
constexpr int64_t kUsualDims[] = {16, 32, 64, 128};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const Config& config, const Machine& machine,
    const ServerOptions& options) {
  auto workspace = Workspace::Create();
  if (!workspace.ok()) return workspace.status();
  for (const int64_t dim : kUsualDims) {
    absl::Status prepared = (*workspace)->Prepare(dim, dim);
    if (!prepared.ok()) return prepared;
  }
  const auto costs = Calibrate(**workspace);
  if (!costs.ok()) return costs.status();
  auto settings = Settings::Make(config);
  if (!settings.ok()) return settings.status();
  auto parts = std::make_unique<Parts>(*settings, machine, options,
                                       Paced(*costs, options.pace));
  parts->log.CaptureGrpc();
  if (!config.effective.verification().skip_self_test()) {
    absl::Status tested =
        SelfTest(parts->settings.Get()->encodings, **workspace);
    if (!tested.ok()) return tested;
  }
  for (const auto step :
       {&Parts::StartExecutor, &Parts::ListenAdmin, &Parts::Listen}) {
    if (absl::Status status = (parts.get()->*step)(); !status.ok()) {
      return status;
    }
  }
  parts->LogStart();
  return std::unique_ptr<Server>(new Server(std::move(parts)));
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() {
  if (parts_->grpc.server == nullptr) return;
  parts_->admission->Close();
  parts_->executor->Stop();
  parts_->grpc.Stop();
  // It looks at connections, which end before it does.
  parts_->receiving.Stop();
}

absl::Span<const std::string> Server::addresses() const {
  return parts_->grpc.addresses;
}

const std::string& Server::admin_address() const {
  return parts_->admin_address;
}

absl::Span<const std::string> Server::health_addresses() const {
  return parts_->grpc.health_addresses;
}

std::string Server::MetricsText() const { return parts_->MetricsText(); }

void Server::Drain() {
  Parts& p = *parts_;
  const std::shared_ptr<const Settings> now = p.settings.Get();
  const v1::Drain& settings = now->config.effective.drain();
  p.drain = DrainState::kDelay;
  p.SetServing(false);
  p.log.Info("draining", {{"delay_seconds", settings.delay_seconds()},
                          {"grace_seconds", settings.grace_seconds()}});
  // Balancers need a moment to learn it; until then calls still come and are
  // answered.
  {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    const Instant end =
        steady_clock::now() + FromSeconds(settings.delay_seconds());
    never.wait_until(lock, end, [] { return false; });
  }
  p.drain = DrainState::kFinishing;
  p.admission->Close();
  p.streams.Drain();
  p.receiving.Drain();
  const Instant end =
      steady_clock::now() + FromSeconds(settings.grace_seconds());
  // Shutdown sends GOAWAY at once and returns when every call has ended or the
  // grace is over. Health watchers would hold it for the whole grace, so once
  // our own calls are done the rest is cancelled.
  p.grpc.connections->Close();
  std::future<void> shutdown = std::async(std::launch::async, [&] {
    p.grpc.server->Shutdown(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::duration<double>(settings.grace_seconds())));
  });
  const bool finished = p.calls.WaitForZero(end);
  p.executor->Stop();
  while (shutdown.wait_for(std::chrono::milliseconds(100)) !=
         std::future_status::ready) {
    grpc_server_cancel_all_calls(p.grpc.server->c_server());
  }
  p.grpc.Stop();
  p.log.Info("stopped", {{"finished", finished}});
}

}  // namespace attnd::server
