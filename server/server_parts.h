// What a server consists of; for its sources alone.
#ifndef ATTND_SERVER_SERVER_PARTS_H_
#define ATTND_SERVER_SERVER_PARTS_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/admin.h"
#include "server/attention_service.h"
#include "server/grpc_listener.h"
#include "server/server.h"

namespace attnd::server {

AdmissionLimits ToAdmissionLimits(const v1::ServerConfig& config);

// Encodings as metrics name them.
std::vector<std::string> LabelsOf(const EncodingCatalog& encodings);

// In the order of construction; destroyed in the reverse one, so that calls and
// workers end before what they use.
struct Server::Parts {
  Parts(std::shared_ptr<const Settings> first, const Machine& machine,
        const ServerOptions& options, const CostModel& measured);

  absl::Status StartExecutor();
  absl::Status Listen();
  absl::Status ListenAdmin();
  absl::Status Reload(const Config& changed);
  void TlsChanged(const absl::Status& status);
  void SetServing(bool serving);
  HttpReply Ready() const;
  std::string MetricsText();
  void LogStart();

  const Config config;
  const Machine machine;
  const RunUnitFunction run_unit;
  const double small_seconds;
  Log log;
  CurrentSettings settings;
  CostPredictor costs;
  Metrics metrics;
  ShadowCheck shadow_check{metrics, log};
  const std::shared_ptr<Admission> admission;
  CallCount calls;
  StreamRegistry streams;
  Receiving receiving;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<LoadReport> load_report;
  std::unique_ptr<ServiceContext> context;
  AttentionService service;
  GrpcListener grpc;
  // Of grpc, for scrapes that may come before it is complete.
  std::atomic<const ConnectionAcceptor*> connections{nullptr};
  std::atomic<bool> ready{false};
  std::atomic<DrainState> drain{DrainState::kServing};
  std::mutex reload_mutex;  // one reload at a time
  std::unique_ptr<Admin> admin;
  std::string admin_address = "off";
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_SERVER_PARTS_H_
