#include "server/metrics_series.h"

#include <cmath>
#include <iterator>

#include "absl/strings/ascii.h"

namespace attnd::server {
namespace {

constexpr char kService[] = "attnd.v1.AttentionScoring";

// As go-grpc-prometheus and its kin spell them; existing dashboards read these.
constexpr const char* kCodeNames[] = {"OK",
                                      "Canceled",
                                      "Unknown",
                                      "InvalidArgument",
                                      "DeadlineExceeded",
                                      "NotFound",
                                      "AlreadyExists",
                                      "PermissionDenied",
                                      "ResourceExhausted",
                                      "FailedPrecondition",
                                      "Aborted",
                                      "OutOfRange",
                                      "Unimplemented",
                                      "Internal",
                                      "Unavailable",
                                      "DataLoss",
                                      "Unauthenticated"};
static_assert(std::size(kCodeNames) == kCodes);

constexpr const char* kStageNames[kStages] = {"decode", "plan", "queue",
                                              "compute", "finish"};

// 50 us to 60 s in steps of 1.5 to 2, on round numbers because latency
// objectives are round and should fall on an edge.
const prometheus::Histogram::BucketBoundaries kSeconds = {
    50e-6, 100e-6, 200e-6, 300e-6, 500e-6, 1e-3, 2e-3, 3e-3, 5e-3,
    10e-3, 20e-3,  30e-3,  50e-3,  0.1,    0.2,  0.3,  0.5,  1,
    2,     3,      5,      10,     20,     30,   60};

double Finite(double value) { return std::isfinite(value) ? value : 0; }

// A counter follows a reading that never falls.
void Raise(prometheus::Counter& counter, double value) {
  counter.Increment(Finite(value) - counter.Value());
}

}  // namespace

Metrics::Series::Series(const MetricsInfo& info) {
  MakeCalls();
  MakeRequests(info);
  MakeQueue();
  MakeServer(info);
  MakeProcess(info);
}

prometheus::Counter& Metrics::Series::MakeCounter(
    const std::string& name, const std::string& help,
    const prometheus::Labels& labels) {
  return prometheus::BuildCounter()
      .Name(name)
      .Help(help)
      .Register(registry)
      .Add(labels);
}

prometheus::Gauge& Metrics::Series::MakeGauge(
    const std::string& name, const std::string& help,
    const prometheus::Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(
      labels);
}

prometheus::Histogram& Metrics::Series::MakeHistogram(
    const std::string& name, const std::string& help,
    const prometheus::Labels& labels) {
  return prometheus::BuildHistogram()
      .Name(name)
      .Help(help)
      .Register(registry)
      .Add(labels, kSeconds);
}

void Metrics::Series::MakeCalls() {
  for (int m = 0; m < kMethods; ++m) {
    const auto method = static_cast<Method>(m);
    prometheus::Labels labels = {
        {"grpc_type",
         method == Method::kAttendStream ? "bidi_stream" : "unary"},
        {"grpc_service", kService},
        {"grpc_method", std::string(MethodName(method))}};
    Call& call = calls[m];
    call.started = &MakeCounter("grpc_server_started_total",
                                "Calls started on the server.", labels);
    call.received = &MakeCounter("grpc_server_msg_received_total",
                                 "Messages received by the server.", labels);
    call.sent = &MakeCounter("grpc_server_msg_sent_total",
                             "Messages sent by the server.", labels);
    call.seconds = &MakeHistogram(
        "grpc_server_handling_seconds",
        "Seconds from the arrival of a call's message to its status.", labels);
    for (int code = 0; code < kCodes; ++code) {
      labels["grpc_code"] = kCodeNames[code];
      call.handled[code] = &MakeCounter(
          "grpc_server_handled_total",
          "Calls completed on the server, whatever their status.", labels);
    }
  }
}

void Metrics::Series::MakeRequests(const MetricsInfo& info) {
  AddLabels(info.encodings, info.tenants);
  query_rows = &MakeCounter("attnd_tokens_total",
                            "Query rows of answered requests (batch * Lq).");
  for (const Reason reason : kAllReasons) {
    rejected[reason] =
        &MakeCounter("attnd_rejected_total", "Requests refused, by reason.",
                     {{"reason", absl::AsciiStrToLower(ReasonText(reason))}});
  }
  for (int stage = 0; stage < kStages; ++stage) {
    stages[stage] = &MakeHistogram(
        "attnd_stage_seconds",
        "Seconds a request spent in a stage; queue also for requests that "
        "never ran.",
        {{"stage", kStageNames[stage]}});
  }
  expired = {&MakeCounter("attnd_expired_in_queue_total",
                          "Requests whose deadline came while they waited."),
             &MakeCounter("attnd_expired_in_compute_total",
                          "Requests whose deadline came while they ran.")};
  for (int i = 0; i < 2; ++i) {
    cancelled[i] =
        &MakeCounter("attnd_cancelled_total", "Requests cancelled by callers.",
                     {{"stage", i == 0 ? "queue" : "compute"}});
  }
}

void Metrics::Series::AddLabels(const std::vector<std::string>& names,
                                absl::Span<const Tenant> tenants) {
  for (const std::string& name : names) {
    if (encodings.count(name) > 0) continue;
    const auto seconds = [&](Method method) {
      return &MakeHistogram(
          "attnd_request_seconds",
          "Seconds from arrival to reply of requests answered OK.",
          {{"method", std::string(MethodName(method))}, {"encoding", name}});
    };
    encodings[name] = {
        .request_seconds = {seconds(Method::kAttend),
                            seconds(Method::kAttendStream)},
        .flops = &MakeCounter(
            "attnd_executed_flops_total",
            "Operations of the matrix products of answered requests.",
            {{"kernel", "softmax"}, {"encoding", name}, {"dtype", "f32"}}),
        .cost_factor =
            &MakeGauge("attnd_cost_factor",
                       "Predicted over calibrated cost, of the last request.",
                       {{"encoding", name}})};
  }
  for (const Tenant& tenant : tenants) {
    offered.emplace(
        tenant.id,
        &MakeCounter(
            "attnd_offered_worker_seconds_total",
            "Predicted worker seconds of all first attempts that arrived, "
            "refused ones included: the demand. Its rate over workers is the "
            "load.",
            {{"tenant_class", tenant.name}}));
  }
}

void Metrics::Series::MakeQueue() {
  admitted = &MakeCounter("attnd_admitted_worker_seconds_total",
                          "Predicted worker seconds of admitted requests.");
  waiting = &MakeGauge("attnd_requests_waiting",
                       "Admitted requests that have not started.");
  running =
      &MakeGauge("attnd_requests_running", "Requests with a started unit.");
  inflight =
      &MakeGauge("attnd_inflight_requests", "Requests waiting and running.");
  streams = &MakeGauge("attnd_streams_open", "AttendStream calls under way.");
  receive_bytes = &MakeGauge("attnd_receive_bytes",
                             "Of messages that have not arrived completely.");
  connections = &MakeGauge("attnd_connections", "Open gRPC connections.");
  connections_refused = &MakeCounter(
      "attnd_connections_refused_total",
      "Connections closed at once: too many, or no file descriptor.");
  queue_seconds = &MakeGauge("attnd_queue_cost_seconds",
                             "Predicted worker seconds that wait.");
  queue_bytes =
      &MakeGauge("attnd_queue_bytes", "Bytes charged to requests in flight.");
  limit_seconds = &MakeGauge("attnd_queue_limit_cost_seconds",
                             "Predicted worker seconds that may wait.");
  limit_bytes =
      &MakeGauge("attnd_queue_limit_bytes", "Bytes that may be in flight.");
  limit_requests =
      &MakeGauge("attnd_queue_limit_requests", "Requests that may wait.");
  cost_ratio = &MakeGauge(
      "attnd_cost_model_ratio",
      "Measured over predicted worker seconds, moving average over requests.");
  cost_ratio->Set(1);
}

void Metrics::Series::MakeServer(const MetricsInfo& info) {
  MakeGauge(
      "attnd_build_info", "Constant 1.",
      {{"version", info.version}, {"instruction_set", info.instruction_set}})
      .Set(1);
  ready = &MakeGauge("attnd_ready", "1 while the health service says SERVING.");
  drain = &MakeGauge("attnd_drain_state",
                     "0 serving, 1 drain delay, 2 finishing what is left.");
  generation = &MakeGauge("attnd_config_generation",
                          "Number of the configuration in force.");
  const auto by_result = [&](const char* name, const char* help, Counter*& ok,
                             Counter*& failed) {
    ok = &MakeCounter(name, help, {{"result", "ok"}});
    failed = &MakeCounter(name, help, {{"result", "error"}});
  };
  by_result("attnd_config_reloads_total",
            "Configurations read again, taken over or refused.", reloads_ok,
            reloads_failed);
  by_result("attnd_tls_reloads_total",
            "Changed files of TLS, taken over or refused.", tls_reloads_ok,
            tls_reloads_failed);
  const auto checks = [&](const char* result) {
    return &MakeCounter(
        "attnd_shadow_checks_total",
        "Answers picked for a comparison with the double-precision reference.",
        {{"result", result}});
  };
  shadow_checks = {checks("match"), checks("mismatch"), checks("skipped")};
  MakeGauge("attnd_workers", "Compute threads.").Set(info.limits.workers);
  workers_busy = &MakeGauge("attnd_workers_busy", "Workers that run a unit.");
  busy_seconds = &MakeCounter("attnd_worker_busy_seconds_total",
                              "Seconds that workers ran units.");
  encoders = &MakeGauge("attnd_encoders_cached",
                        "Encodings compiled for sizes seen in requests.");
  MakeGauge("attnd_calibrated_flops",
            "FLOP/s of one worker that cost predictions use.")
      .Set(Finite(info.calibrated_flops));
}

void Metrics::Series::MakeProcess(const MetricsInfo& info) {
  MakeGauge("attnd_cpu_quota_cores", "CPUs of the cgroup quota; 0 = no quota.")
      .Set(info.machine.quota_cpus.value_or(0));
  MakeGauge("attnd_cpu_affinity_cores", "CPUs of the affinity mask.")
      .Set(info.machine.affinity_cpus);
  MakeGauge("attnd_memory_limit_bytes",
            "Memory limit of the cgroup, else the physical memory.")
      .Set(static_cast<double>(info.machine.UsableMemory()));
  cgroup_memory = &MakeGauge("attnd_cgroup_memory_bytes",
                             "Memory that the cgroup uses; 0 = unknown.");
  throttled_seconds = &MakeCounter("attnd_cpu_throttled_seconds_total",
                                   "Seconds the cgroup stood still by quota.");
  throttled_periods = &MakeCounter("attnd_cpu_throttled_periods_total",
                                   "Periods the cgroup was stopped in.");
  minor_faults = &MakeCounter("attnd_minor_faults_total",
                              "Page faults without input or output.");
  cpu_seconds =
      &MakeCounter("process_cpu_seconds_total", "User and system CPU seconds.");
  resident = &MakeGauge("process_resident_memory_bytes", "Resident memory.");
  virtual_memory =
      &MakeGauge("process_virtual_memory_bytes", "Virtual memory.");
  open_files = &MakeGauge("process_open_fds", "Open file descriptors.");
  max_files = &MakeGauge("process_max_fds", "File descriptors it may open.");
  threads = &MakeGauge("process_threads", "Threads.");
  start_time = &MakeGauge("process_start_time_seconds",
                          "Start, seconds since the epoch.");
}

void Metrics::Series::Refresh(const MetricsReadings& readings) {
  ready->Set(readings.ready ? 1 : 0);
  drain->Set(static_cast<int>(readings.drain));
  generation->Set(static_cast<double>(readings.config_generation));
  encoders->Set(static_cast<double>(readings.encoders_cached));

  const ExecutorLoad& executor = readings.executor;
  workers_busy->Set(executor.busy_workers);
  Raise(*busy_seconds, executor.busy_seconds);
  waiting->Set(static_cast<double>(executor.waiting));
  running->Set(static_cast<double>(executor.running));
  inflight->Set(static_cast<double>(executor.waiting + executor.running));

  streams->Set(static_cast<double>(readings.streams));
  receive_bytes->Set(static_cast<double>(readings.receiving.bytes));
  connections->Set(static_cast<double>(readings.connections));
  Raise(*connections_refused,
        static_cast<double>(readings.connections_refused));
  limit_seconds->Set(readings.limits.queue_worker_seconds *
                     readings.limits.workers);
  limit_bytes->Set(static_cast<double>(readings.limits.bytes));
  limit_requests->Set(static_cast<double>(readings.limits.waiting_requests));
  queue_seconds->Set(Finite(readings.admission.waiting_seconds));
  queue_bytes->Set(static_cast<double>(readings.admission.bytes));
  cost_ratio->Set(Finite(ratio.load()));
  {
    std::shared_lock lock(labels_mutex);
    for (const auto& [name, encoding] : encodings) {
      const auto factor = readings.cost_factors.find(name);
      encoding.cost_factor->Set(
          factor == readings.cost_factors.end() ? 1 : Finite(factor->second));
    }
  }

  const ProcessUsage& process = readings.process;
  Raise(*cpu_seconds, process.cpu_seconds);
  Raise(*throttled_seconds, process.throttled_seconds);
  Raise(*throttled_periods, static_cast<double>(process.throttled_periods));
  Raise(*minor_faults, static_cast<double>(process.minor_faults));
  resident->Set(static_cast<double>(process.resident_bytes));
  virtual_memory->Set(static_cast<double>(process.virtual_bytes));
  open_files->Set(static_cast<double>(process.open_files));
  max_files->Set(static_cast<double>(process.max_files));
  threads->Set(static_cast<double>(process.threads));
  start_time->Set(Finite(process.start_time_seconds));
  cgroup_memory->Set(static_cast<double>(process.cgroup_memory_bytes));
}

}  // namespace attnd::server
