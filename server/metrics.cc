#include "server/metrics.h"

#include <prometheus/text_serializer.h>

#include <cmath>
#include <mutex>
#include <shared_mutex>
#include <sstream>

#include "server/metrics_series.h"

namespace attnd::server {
namespace {

// Weight of the newest request in the moving average of cost ratios.
constexpr double kRatioWeight = 0.02;

double Finite(double value) { return std::isfinite(value) ? value : 0; }

}  // namespace

absl::string_view MethodName(Method method) {
  constexpr absl::string_view kNames[kMethods] = {
      "Attend", "AttendStream", "Estimate", "ListEncodings", "GetServerInfo"};
  return kNames[static_cast<int>(method)];
}

Metrics::Metrics(const MetricsInfo& info)
    : series_(std::make_unique<Series>(info)) {}

Metrics::~Metrics() = default;

void Metrics::CallStarted(Method method) {
  series_->calls[static_cast<int>(method)].started->Increment();
}

void Metrics::MessageReceived(Method method) {
  series_->calls[static_cast<int>(method)].received->Increment();
}

void Metrics::MessageSent(Method method) {
  series_->calls[static_cast<int>(method)].sent->Increment();
}

void Metrics::CallHandled(Method method, int code, double seconds) {
  Series::Call& call = series_->calls[static_cast<int>(method)];
  if (code < 0 || code >= kCodes) code = 2;
  call.handled[code]->Increment();
  call.seconds->Observe(seconds);
}

void Metrics::AddLabels(const std::vector<std::string>& encodings,
                        absl::Span<const Tenant> tenants) {
  std::unique_lock lock(series_->labels_mutex);
  series_->AddLabels(encodings, tenants);
}

void Metrics::Offered(int tenant, double worker_seconds) {
  std::shared_lock lock(series_->labels_mutex);
  const auto it = series_->offered.find(tenant);
  if (it != series_->offered.end()) {
    it->second->Increment(Finite(worker_seconds));
  }
}

void Metrics::Reloaded(bool ok) {
  (ok ? series_->reloads_ok : series_->reloads_failed)->Increment();
}

void Metrics::TlsReloaded(bool ok) {
  (ok ? series_->tls_reloads_ok : series_->tls_reloads_failed)->Increment();
}

void Metrics::ShadowChecked(ShadowResult result) {
  series_->shadow_checks[static_cast<int>(result)]->Increment();
}

void Metrics::Admitted(double worker_seconds) {
  series_->admitted->Increment(Finite(worker_seconds));
}

void Metrics::Rejected(Reason reason) {
  series_->rejected.at(reason)->Increment();
}

void Metrics::Expired(EndedIn stage) {
  series_->expired[static_cast<int>(stage)]->Increment();
}

void Metrics::Cancelled(EndedIn stage) {
  series_->cancelled[static_cast<int>(stage)]->Increment();
}

void Metrics::StageTook(Stage stage, double seconds) {
  series_->stages[static_cast<int>(stage)]->Observe(seconds);
}

void Metrics::Answered(Method method, absl::string_view encoding,
                       double seconds, double flops, double query_rows) {
  series_->query_rows->Increment(query_rows);
  std::shared_lock lock(series_->labels_mutex);
  const auto it = series_->encodings.find(encoding);
  if (it == series_->encodings.end()) return;
  it->second.request_seconds[static_cast<int>(method)]->Observe(seconds);
  it->second.flops->Increment(flops);
}

void Metrics::CostRatio(double measured_over_predicted) {
  if (!std::isfinite(measured_over_predicted)) return;
  double old = series_->ratio.load();
  while (!series_->ratio.compare_exchange_weak(
      old, old + kRatioWeight * (measured_over_predicted - old))) {
  }
}

std::string Metrics::Text(const MetricsReadings& readings) {
  std::lock_guard lock(series_->text_mutex);
  series_->Refresh(readings);
  std::ostringstream text;
  text.precision(17);
  prometheus::TextSerializer().Serialize(text, series_->registry.Collect());
  return text.str();
}

}  // namespace attnd::server
