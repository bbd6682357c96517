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
#include "absl/strings/str_split.h"
#include "attnd_version.h"
#include "server/admin.h"
#include "server/attention_service.h"
#include "server/cost_calibration.h"
#include "server/grpc_listener.h"
#include "server/hash.h"
#include "server/pace.h"
#include "server/self_test.h"

namespace attnd::server {
namespace {

using std::chrono::steady_clock;

// Head dimensions whose first request finds everything built.
constexpr int64_t kUsualDims[] = {16, 32, 64, 128};

AdmissionLimits ToAdmissionLimits(const v1::ServerConfig& config) {
  const v1::Limits& limits = config.limits();
  return {.workers = config.workers(),
          .queue_worker_seconds = limits.queue_worker_seconds(),
          .bytes = limits.queue_bytes(),
          .waiting_requests = limits.queue_requests(),
          .request_worker_seconds = limits.request_worker_seconds()};
}

std::vector<std::string> LabelsOf(const EncodingCatalog& encodings) {
  std::vector<std::string> names(encodings.names().begin(),
                                 encodings.names().end());
  names.push_back("inline");
  return names;
}

MetricsInfo ToMetricsInfo(const Settings& settings, const Machine& machine,
                          const CostModel& costs) {
  const Config& config = settings.config;
  MetricsInfo info;
  info.encodings = LabelsOf(settings.encodings);
  info.tenants.assign(settings.tenants.list().begin(),
                      settings.tenants.list().end());
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

// What gRPC's own threads may compute themselves: about what it takes to hand a
// request to a worker. Nothing that may wait.
double SmallSecondsOf(const ServerOptions& options) {
  return options.run_unit || options.pace > 1 ? 0 : 50e-6;
}

}  // namespace

// In the order of construction; destroyed in the reverse one, so that calls and
// workers end before what they use.
struct Server::Parts {
  Parts(std::shared_ptr<const Settings> first, const Machine& m,
        const ServerOptions& options, const CostModel& measured)
      : config(first->config),
        machine(m),
        run_unit(RunUnitOf(options)),
        small_seconds(SmallSecondsOf(options)),
        log(config.effective.log()),
        settings(first),
        costs(measured),
        metrics(ToMetricsInfo(*first, machine, measured)),
        admission(
            std::make_shared<Admission>(ToAdmissionLimits(config.effective))),
        receiving({.bytes = config.effective.limits().receive_bytes(),
                   .message_bytes = config.effective.limits().message_bytes()},
                  [this](const std::string& peer) {
                    const ConnectionAcceptor* accepting = connections;
                    return accepting ? accepting->BytesReceived(peer)
                                     : std::nullopt;
                  }) {}

  absl::Status StartExecutor();
  absl::Status Listen();
  absl::Status ListenAdmin();
  absl::Status Reload(const Config& changed);
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

absl::Status Server::Parts::StartExecutor() {
  auto started = Executor::Create({.workers = config.effective.workers(),
                                   .workspace = Workspace::Create,
                                   .small_seconds = small_seconds,
                                   .time = nullptr});
  if (!started.ok()) return started.status();
  executor = *std::move(started);
  load_report =
      std::make_unique<LoadReport>(*executor, config.effective.workers());
  context.reset(new ServiceContext{.settings = settings,
                                   .costs = costs,
                                   .run_unit = run_unit,
                                   .admission = *admission,
                                   .executor = *executor,
                                   .metrics = metrics,
                                   .log = log,
                                   .calls = calls,
                                   .streams = streams,
                                   .receiving = receiving,
                                   .load_report = *load_report,
                                   .shadow_check = shadow_check});
  return absl::OkStatus();
}

absl::Status Server::Parts::Listen() {
  service = MakeAttentionService(*context);
  // Before the server is reachable, which says SERVING under "" from then on.
  ready = true;
  auto listening =
      ListenGrpc(config.effective, *service.methods, *service.attend);
  if (!listening.ok()) return listening.status();
  grpc = *std::move(listening);
  connections = grpc.connections.get();
  receiving.Start();
  SetServing(true);
  grpc.SetHealth(kLivenessHealthName, true);
  return absl::OkStatus();
}

// One by one: the calls that set all names would take liveness with them.
void Server::Parts::SetServing(bool serving) {
  ready = serving;
  grpc.SetHealth("", serving);
  grpc.SetHealth(kServiceHealthName, serving);
}

HttpReply Server::Parts::Ready() const {
  if (ready) return {.body = "ready\n"};
  return {.code = 503,
          .body = drain == DrainState::kServing ? "starting\n" : "draining\n"};
}

std::string Server::Parts::MetricsText() {
  const std::shared_ptr<const Settings> now = settings.Get();
  const EncodingCatalog& encodings = now->encodings;
  const ConnectionAcceptor* accepting = connections;
  return metrics.Text(
      {.executor = executor->load(),
       .admission = admission->load(),
       .process = ReadProcessUsage(),
       .ready = ready,
       .drain = drain,
       .config_generation = now->generation,
       .encoders_cached =
           static_cast<int64_t>(encodings.configured_encoders().size() +
                                encodings.inline_encoders().size()),
       .streams = streams.size(),
       .receiving = receiving.load(),
       .connections = accepting ? accepting->open() : 0,
       .connections_refused = accepting ? accepting->refused() : 0,
       .limits = admission->limits(),
       .cost_factors = costs.factors()});
}

// Which section of the new configuration cannot be taken over by a server that
// runs; empty if all can.
std::string FixedSection(const v1::ServerConfig& now,
                         const v1::ServerConfig& next) {
  const auto same = [](const auto& a, const auto& b) {
    return DeterministicBytes(a) == DeterministicBytes(b);
  };
  v1::ServerConfig a = now, b = next;
  for (v1::ServerConfig* config : {&a, &b}) {
    // What may change.
    config->clear_encodings();
    config->clear_inline_encodings();
    config->clear_tenants();
    config->clear_security();
    config->clear_drain();
    config->clear_verification();
    const v1::Limits all = config->limits();
    config->mutable_limits()->Clear();
    config->mutable_limits()->set_message_bytes(all.message_bytes());
    config->mutable_limits()->set_streams_per_connection(
        all.streams_per_connection());
    config->mutable_limits()->set_receive_bytes(all.receive_bytes());
    config->mutable_limits()->set_connections(all.connections());
  }
  if (a.workers() != b.workers()) return "workers";
  if (!same(a.admin(), b.admin())) return "admin";
  if (!same(a.transport(), b.transport())) return "transport";
  if (!same(a.log(), b.log())) return "log";
  if (!same(a.limits(), b.limits())) {
    return "limits.message_bytes, receive_bytes, connections and "
           "streams_per_connection";
  }
  return same(a, b) ? "" : "listeners";
}

absl::Status Server::Parts::Reload(const Config& changed) {
  std::lock_guard lock(reload_mutex);
  const std::shared_ptr<const Settings> before = settings.Get();
  const auto take_over = [&]() -> absl::Status {
    const std::string fixed =
        FixedSection(before->config.effective, changed.effective);
    if (!fixed.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(fixed, ": changes with a restart only"));
    }
    auto next = Settings::Make(changed, before.get());
    if (!next.ok()) return next.status();
    if (!changed.effective.verification().skip_self_test()) {
      auto workspace = Workspace::Create();
      if (!workspace.ok()) return workspace.status();
      absl::Status tested = SelfTest((*next)->encodings, **workspace);
      if (!tested.ok()) return tested;
    }
    metrics.AddLabels(LabelsOf((*next)->encodings), (*next)->tenants.list());
    admission->SetLimits(ToAdmissionLimits(changed.effective));
    settings.Set(*next);
    return absl::OkStatus();
  };
  const absl::Status status = take_over();
  metrics.Reloaded(status.ok());
  if (status.ok()) {
    log.Info("configuration reloaded",
             {{"generation", settings.Get()->generation},
              {"config_hash", changed.hash}});
  } else {
    log.Error("configuration refused", {{"message", status.message()},
                                        {"generation", before->generation}});
  }
  return status;
}

absl::Status Server::Parts::ListenAdmin() {
  if (config.effective.admin().address() == "off") return absl::OkStatus();
  const auto version = [this] {
    return HttpReply{.content_type = "application/json",
                     .body = absl::StrCat(
                         "{\"version\":", JsonString(ATTND_VERSION),
                         ",\"instruction_set\":", JsonString(InstructionSet()),
                         ",\"config_hash\":",
                         JsonString(settings.Get()->config.hash), "}\n")};
  };
  // The configuration names files that hold secrets, and no secrets.
  const auto configuration = [this] {
    return HttpReply{.content_type = "application/json",
                     .body = ConfigText(settings.Get()->config)};
  };
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
       {"/configz", configuration},
       {"/version", version}});
  if (!listening.ok()) return listening.status();
  admin = *std::move(listening);
  admin_address = admin->address();
  return absl::OkStatus();
}

void Server::Parts::LogStart() {
  log.Info(
      "listening",
      {{"grpc", absl::StrJoin(grpc.addresses, ",")},
       {"health", absl::StrJoin(grpc.health_addresses, ",")},
       {"admin", admin_address},
       {"version", ATTND_VERSION},
       {"workers", config.effective.workers()},
       {"machine", machine.Describe()},
       {"instruction_set", InstructionSet()},
       {"gflops_per_worker", costs.model().flops_per_second() / 1e9},
       {"encodings", absl::StrJoin(settings.Get()->encodings.names(), ",")},
       {"config_hash", config.hash}});
}

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

absl::Status Server::Reload(const Config& config) {
  return parts_->Reload(config);
}

void Server::RefuseReload(const absl::Status& status) {
  parts_->metrics.Reloaded(false);
  for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    parts_->log.Error("configuration refused", {{"message", line}});
  }
}

std::string Server::MetricsText() const { return parts_->MetricsText(); }

void Server::Drain() {
  Parts& p = *parts_;
  const std::shared_ptr<const Settings> now = p.settings.Get();
  const v1::Drain& settings = now->config.effective.drain();
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
