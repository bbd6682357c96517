#include "server/server_parts.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "attnd_version.h"
#include "server/pace.h"

namespace attnd::server {
namespace {

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

Server::Parts::Parts(std::shared_ptr<const Settings> first, const Machine& m,
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
      ListenGrpc(config.effective, *service.methods, *service.attend,
                 [this](const absl::Status& status) { TlsChanged(status); });
  if (!listening.ok()) return listening.status();
  grpc = *std::move(listening);
  connections = grpc.connections.get();
  receiving.Start();
  SetServing(true);
  grpc.SetHealth(kLivenessHealthName, true);
  return absl::OkStatus();
}

void Server::Parts::TlsChanged(const absl::Status& status) {
  metrics.TlsReloaded(status.ok());
  if (status.ok()) {
    log.Info("certificate reloaded");
  } else {
    log.Error("certificate refused", {{"message", status.message()}});
  }
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

}  // namespace attnd::server
