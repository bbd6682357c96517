#include "client/load/session.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/load/channels.h"
#include "client/load/max_search.h"
#include "client/load/runner.h"
#include "client/load/self_check.h"
#include "client/load/server_metrics.h"
#include "client/load/silent_endpoints.h"
#include "client/load/stream_transport.h"
#include "client/load/unary_transport.h"
#include "client/load/verify_kept.h"

namespace attnd::client {
namespace {

// Serialized requests of all kinds in one row, as the conductor numbers them.
std::vector<Payload> MakePayloads(LoadPlan* plan) {
  std::vector<Payload> payloads;
  plan->conductor.work.clear();
  for (const WorkKind& kind : plan->kinds) {
    Payload payload;
    if (!kind.tenant.empty()) payload.metadata = {{kTenantKey, kind.tenant}};
    size_t bytes = 0;
    for (const v1::AttendRequest& request : kind.requests) {
      payload.bytes = Serialize(request);
      bytes += payload.bytes.Length();
      payloads.push_back(payload);
    }
    plan->conductor.work.push_back(
        {.name = kind.name,
         .weight = kind.weight,
         .requests = static_cast<int>(kind.requests.size()),
         .request_bytes = static_cast<int64_t>(bytes / kind.requests.size())});
  }
  return payloads;
}

class Session {
 public:
  Session(const SessionOptions& options, LoadPlan plan)
      : options_(options),
        plan_(std::move(plan)),
        payloads_(MakePayloads(&plan_)) {
    plan_.conductor.max_attempts = options.client.max_attempts;
    plan_.conductor.timeout_ns =
        absl::ToInt64Nanoseconds(options.client.timeout);
  }

  absl::StatusOr<LoadReport> Run() {
    absl::Status status = Connect();
    if (!status.ok()) return status;
    std::vector<std::unique_ptr<MetricsScraper>> scrapers;
    for (const std::string& url : options_.arguments.metrics) {
      auto scraper = MetricsScraper::Start(url);
      if (!scraper.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--metrics: ", scraper.status().message()));
      }
      scrapers.push_back(*std::move(scraper));
    }
    Describe();
    RunOutcome outcome =
        plan_.find_max ? Search() : RunOnce(plan_.arrivals, "");
    for (const auto& scraper : scrapers) {
      report_.servers.push_back(scraper->Stop());
    }
    if (verifier_) Verify(outcome);
    report_.result = std::move(outcome.result);
    NoteSilentEndpoints(options_.client, &report_.result);
    report_.slo = CheckSlo(plan_.slo, report_.result);
    report_.invalid = Invalidities(report_.result, plan_.max_lag_ns);
    report_.remarks = Remarks(report_.result);
    return std::move(report_);
  }

 private:
  void Say(const std::string& text) {
    if (options_.live != nullptr) options_.live->Write({LiveField{text}});
  }

  absl::Status Connect() {
    Say(absl::StrCat("connecting to ", options_.target));
    absl::StatusOr<Channels> channels =
        ConnectChannels(options_.client, plan_.connections,
                        {.tell = options_.tell, .stop = options_.stop});
    if (!channels.ok()) return channels.status();
    if (options_.arguments.stream) {
      transport_ = std::make_unique<StreamTransport>(
          options_.client, *std::move(channels), plan_.conductor.slots,
          payloads_);
    } else {
      transport_ = std::make_unique<UnaryTransport>(
          options_.client, *std::move(channels), plan_.conductor.slots,
          payloads_);
    }
    if (options_.arguments.verify > 0) {
      absl::StatusOr<Client> client = Client::Create(options_.client);
      if (!client.ok()) return client.status();
      verifier_ = *std::move(client);
    }
    return absl::OkStatus();
  }

  void Describe() {
    LoadSetting& setting = report_.setting;
    setting.target = options_.target;
    setting.mode = plan_.mode;
    setting.transport =
        options_.arguments.stream ? "AttendStream" : "unary Attend";
    double sum = 0;
    for (const WorkShare& work : plan_.conductor.work) sum += work.weight;
    double bytes = 0;
    for (const WorkShare& work : plan_.conductor.work) {
      const double share = work.weight / sum;
      bytes += share * static_cast<double>(work.request_bytes);
      setting.work.push_back(
          plan_.conductor.work.size() == 1
              ? work.name
              : absl::StrFormat("%.3g %% %s", 100 * share, work.name));
    }
    setting.request_bytes = static_cast<int64_t>(bytes);
    setting.in_flight = plan_.conductor.slots;
    setting.connections = plan_.connections;
    setting.max_attempts = plan_.conductor.max_attempts;
    setting.warm_up_seconds =
        static_cast<double>(plan_.conductor.warm_up_ns) * 1e-9;
    setting.timeout_seconds = absl::ToDoubleSeconds(options_.client.timeout);
    setting.seed = options_.arguments.work.seed;
    setting.start_epoch_seconds =
        absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
    report_.arrivals = plan_.arrivals;
    report_.searched = plan_.find_max;
  }

  RunOutcome RunOnce(const std::optional<Arrivals>& arrivals,
                     const std::string& title) {
    ConductorOptions conductor = plan_.conductor;
    conductor.arrivals = arrivals;
    std::optional<RunLine> live;
    if (options_.live != nullptr) {
      live.emplace(*options_.live, title, report_.setting.warm_up_seconds,
                   plan_.seconds, conductor.calls);
    }
    return RunLoad(
        std::move(conductor), *transport_,
        {.observer = live ? &*live : nullptr, .stop = options_.stop});
  }

  void Verify(RunOutcome& outcome) {
    std::vector<const v1::AttendRequest*> requests;
    for (const WorkKind& kind : plan_.kinds) {
      for (const v1::AttendRequest& request : kind.requests) {
        requests.push_back(&request);
      }
    }
    Say(absl::StrCat("verifying ", outcome.kept.size(), " answers"));
    Verification found =
        VerifyKept(std::move(outcome.kept), requests, *verifier_,
                   options_.arguments.save, options_.stop);
    found.not_kept += outcome.not_kept;
    report_.verification = std::move(found);
  }

  // The outcome of the run at the rate found, or of the last.
  RunOutcome Search() {
    MaxSearch search(plan_.first_rate, options_.arguments.precision);
    RunOutcome best;
    bool interrupted = false;
    while (const std::optional<double> rate = search.Next()) {
      const absl::StatusOr<Arrivals> arrivals =
          ConstantArrivals(options_.arguments, plan_, *rate);
      if (!arrivals.ok()) break;  // beyond what a schedule can hold
      RunOutcome outcome =
          RunOnce(*arrivals, absl::StrCat("trial ", report_.trials.size() + 1,
                                          ", ", RateText(*rate), "/s:"));
      const Trial trial = Judge(*rate, outcome.result);
      report_.trials.push_back(trial);
      interrupted = outcome.result.interrupted;
      if (interrupted) {
        if (best.result.planned == 0) best = std::move(outcome);
        break;
      }
      search.Tell(trial.sustained);
      if (trial.sustained || best.result.planned == 0) {
        best = std::move(outcome);
        report_.arrivals = *arrivals;
      }
    }
    report_.found_rate = search.found();
    best.result.interrupted = interrupted;
    return best;
  }

  Trial Judge(double rate, const LoadResult& result) {
    Trial trial = {.rate = rate,
                   .reached = result.Throughput(),
                   .p50_ns = result.all.latency_ns.ValueAtPercentile(50),
                   .p99_ns = result.all.latency_ns.ValueAtPercentile(99),
                   .error_share = result.ErrorShare()};
    std::vector<std::string> reasons;
    for (const SloCheck& check : CheckSlo(plan_.slo, result)) {
      if (!check.met) {
        reasons.push_back(
            absl::StrCat("missed ", check.clause, ": ", check.found));
      }
    }
    if (!Stable(result)) reasons.push_back("the queue grows");
    for (const std::string& reason : Invalidities(result, plan_.max_lag_ns)) {
      reasons.push_back(absl::StrCat("INVALID: ", reason));
    }
    trial.sustained = reasons.empty();
    trial.reason = absl::StrJoin(reasons, "; ");
    return trial;
  }

  const SessionOptions& options_;
  LoadPlan plan_;
  const std::vector<Payload> payloads_;
  std::unique_ptr<Transport> transport_;
  // Asks for the encodings to verify by; absent without --verify.
  std::optional<Client> verifier_;
  LoadReport report_;
};

}  // namespace

absl::StatusOr<LoadReport> RunSession(const SessionOptions& options,
                                      LoadPlan plan) {
  return Session(options, std::move(plan)).Run();
}

}  // namespace attnd::client
