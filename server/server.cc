#include "server/server.h"

#include <grpc/grpc.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "attnd_version.h"
#include "server/admin.h"
#include "server/attention_service.h"
#include "server/grpc_listener.h"
#include "server/pace.h"
#include "server/self_test.h"

namespace attnd::server {
namespace {

using std::chrono::steady_clock;

AdmissionLimits ToAdmissionLimits(const v1::ServerConfig& config) {
  const v1::Limits& limits = config.limits();
  return {.workers = config.workers(),
          .queue_worker_seconds = limits.queue_worker_seconds(),
          .bytes = limits.queue_bytes(),
          .waiting_requests = limits.queue_requests(),
          .request_worker_seconds = limits.request_worker_seconds()};
}

MetricsInfo ToMetricsInfo(const Config& config, const Machine& machine,
                          const EncodingCatalog& encodings,
                          const CostModel& costs) {
  MetricsInfo info;
  info.encodings.assign(encodings.names().begin(), encodings.names().end());
  info.encodings.push_back("inline");
  info.version = ATTND_VERSION;
  info.instruction_set = InstructionSet();
  info.limits = ToAdmissionLimits(config.effective);
  info.machine = machine;
  info.calibrated_flops = costs.flops_per_second();
  return info;
}

RunUnitFunction RunUnitOf(const ServerOptions& options) {
  RunUnitFunction run = options.run_unit ? options.run_unit : RunUnit;
  return options.pace > 1 ? Paced(std::move(run), options.pace) : run;
}

}  // namespace

// In the order of construction; destroyed in the reverse one, so that calls and
// workers end before what they use.
struct Server::Parts {
  Parts(const Config& c, const Machine& m, const ServerOptions& options,
        const CostModel& measured)
      : config(c),
        machine(m),
        run_unit(RunUnitOf(options)),
        log(config.effective.log()),
        settings(std::make_shared<Settings>(config, 1)),
        costs(measured),
        metrics(
            ToMetricsInfo(config, machine, settings.Get()->encodings, costs)),
        admission(ToAdmissionLimits(config.effective)) {}

  absl::Status StartExecutor();
  absl::Status Listen();
  absl::Status ListenAdmin();
  void SetServing(bool serving);
  HttpReply Ready() const;
  std::string MetricsText();
  void LogStart();

  const Config config;
  const Machine machine;
  const RunUnitFunction run_unit;
  Log log;
  CurrentSettings settings;
  const CostModel costs;
  Metrics metrics;
  Admission admission;
  CallCount calls;
  StreamRegistry streams;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<ServiceContext> context;
  std::unique_ptr<grpc::Service> service;
  std::unique_ptr<grpc::Server> grpc_server;
  std::vector<std::string> addresses;
  std::atomic<bool> ready{false};
  std::atomic<DrainState> drain{DrainState::kServing};
  std::unique_ptr<Admin> admin;
  std::string admin_address = "off";
};

absl::Status Server::Parts::StartExecutor() {
  auto started = Executor::Create({.workers = config.effective.workers(),
                                   .workspace = Workspace::Create,
                                   .time = nullptr});
  if (!started.ok()) return started.status();
  executor = *std::move(started);
  context.reset(new ServiceContext{.settings = settings,
                                   .costs = costs,
                                   .run_unit = run_unit,
                                   .admission = admission,
                                   .executor = *executor,
                                   .metrics = metrics,
                                   .log = log,
                                   .calls = calls,
                                   .streams = streams});
  return absl::OkStatus();
}

absl::Status Server::Parts::Listen() {
  service = MakeAttentionService(*context);
  // Before the server is reachable, which says SERVING under "" from then on.
  ready = true;
  auto listening = ListenGrpc(config.effective, machine, *service);
  if (!listening.ok()) return listening.status();
  grpc_server = std::move(listening->server);
  addresses = std::move(listening->addresses);
  SetServing(true);
  grpc_server->GetHealthCheckService()->SetServingStatus(kLivenessHealthName,
                                                         true);
  return absl::OkStatus();
}

// One by one: the calls that set all names would take liveness with them.
void Server::Parts::SetServing(bool serving) {
  ready = serving;
  auto* health = grpc_server->GetHealthCheckService();
  health->SetServingStatus("", serving);
  health->SetServingStatus(kServiceHealthName, serving);
}

HttpReply Server::Parts::Ready() const {
  if (ready) return {.body = "ready\n"};
  return {.code = 503,
          .body = drain == DrainState::kServing ? "starting\n" : "draining\n"};
}

std::string Server::Parts::MetricsText() {
  const std::shared_ptr<const Settings> now = settings.Get();
  const EncodingCatalog& encodings = now->encodings;
  return metrics.Text({.executor = executor->load(),
                       .admission = admission.load(),
                       .process = ReadProcessUsage(),
                       .ready = ready,
                       .drain = drain,
                       .config_generation = now->generation,
                       .encoders_cached = static_cast<int64_t>(
                           encodings.configured_encoders().size() +
                           encodings.inline_encoders().size()),
                       .streams = streams.size()});
}

absl::Status Server::Parts::ListenAdmin() {
  if (config.effective.admin().address() == "off") return absl::OkStatus();
  const HttpReply version = {
      .content_type = "application/json",
      .body =
          absl::StrCat("{\"version\":", JsonString(ATTND_VERSION),
                       ",\"instruction_set\":", JsonString(InstructionSet()),
                       ",\"config_hash\":", JsonString(config.hash), "}\n")};
  auto listening = Admin::Listen(
      config.effective.admin().address(),
      {{"/metrics",
        [this] {
          return HttpReply{
              .content_type = "text/plain; version=0.0.4; charset=utf-8",
              .body = MetricsText()};
        }},
       {"/livez", [] { return HttpReply{.body = "alive\n"}; }},
       {"/readyz", [this] { return Ready(); }},
       {"/version", [version] { return version; }}});
  if (!listening.ok()) return listening.status();
  admin = *std::move(listening);
  admin_address = admin->address();
  return absl::OkStatus();
}

void Server::Parts::LogStart() {
  log.Info(
      "listening",
      {{"grpc", absl::StrJoin(addresses, ",")},
       {"admin", admin_address},
       {"version", ATTND_VERSION},
       {"workers", config.effective.workers()},
       {"machine", machine.Describe()},
       {"instruction_set", InstructionSet()},
       {"gflops_per_worker", costs.flops_per_second() / 1e9},
       {"encodings", absl::StrJoin(settings.Get()->encodings.names(), ",")},
       {"config_hash", config.hash}});
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const Config& config, const Machine& machine,
    const ServerOptions& options) {
  auto workspace = Workspace::Create();
  if (!workspace.ok()) return workspace.status();
  const auto costs = CostModel::Calibrate(**workspace);
  if (!costs.ok()) return costs.status();
  auto parts = std::make_unique<Parts>(config, machine, options,
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
  if (parts_->grpc_server == nullptr) return;
  parts_->admission.Close();
  parts_->executor->Stop();
  parts_->grpc_server->Shutdown(std::chrono::system_clock::now());
}

absl::Span<const std::string> Server::addresses() const {
  return parts_->addresses;
}

const std::string& Server::admin_address() const {
  return parts_->admin_address;
}

std::string Server::MetricsText() const { return parts_->MetricsText(); }

void Server::Drain() {
  Parts& p = *parts_;
  const v1::Drain& settings = p.config.effective.drain();
  p.log.Info("draining", {{"delay_seconds", settings.delay_seconds()},
                          {"grace_seconds", settings.grace_seconds()}});
  p.drain = DrainState::kDelay;
  p.SetServing(false);
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
  p.admission.Close();
  p.streams.Drain();
  const Instant end =
      steady_clock::now() + FromSeconds(settings.grace_seconds());
  // Shutdown sends GOAWAY at once and returns when every call has ended or the
  // grace is over. Health watchers would hold it for the whole grace, so once
  // our own calls are done the rest is cancelled.
  std::future<void> shutdown = std::async(std::launch::async, [&] {
    p.grpc_server->Shutdown(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::duration<double>(settings.grace_seconds())));
  });
  const bool finished = p.calls.WaitForZero(end);
  p.executor->Stop();
  while (shutdown.wait_for(std::chrono::milliseconds(100)) !=
         std::future_status::ready) {
    grpc_server_cancel_all_calls(p.grpc_server->c_server());
  }
  p.log.Info("stopped", {{"finished", finished}});
}

}  // namespace attnd::server
