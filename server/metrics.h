// All Prometheus series, made at start so that each shows 0 before the first
// request. README.md has the catalogue.
#ifndef ATTND_SERVER_METRICS_H_
#define ATTND_SERVER_METRICS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/admission.h"
#include "server/executor.h"
#include "server/machine.h"
#include "server/receiving.h"
#include "server/status.h"
#include "server/tenants.h"

namespace attnd::server {

enum class Method {
  kAttend,
  kAttendStream,
  kEstimate,
  kListEncodings,
  kGetServerInfo
};
inline constexpr int kMethods = 5;
absl::string_view MethodName(Method method);

// Parts of a request's life.
enum class Stage {
  kDecode,   // request to problem
  kPlan,     // problem to plan
  kQueue,    // admitted to first unit, or to its end if none ran
  kCompute,  // first unit to last
  kFinish    // the reply's serialization, until gRPC has it
};
inline constexpr int kStages = 5;

// Where a request stood when it ended early.
enum class EndedIn { kQueue, kCompute };

// 0 serving, 1 still serving but not ready, 2 refusing, finishing the rest.
enum class DrainState { kServing = 0, kDelay = 1, kFinishing = 2 };

// What does not change while the server runs.
struct MetricsInfo {
  std::vector<std::string> encodings;  // label values, "inline" too
  std::vector<Tenant> tenants;
  std::string version;
  std::string instruction_set;
  AdmissionLimits limits;
  Machine machine;
  double calibrated_flops = 0;
};

// What is read at the moment of a scrape, so that no gauge can leak.
struct MetricsReadings {
  ExecutorLoad executor = {};
  AdmissionLoad admission = {};
  ProcessUsage process = {};
  bool ready = false;
  DrainState drain = DrainState::kServing;
  int64_t config_generation = 1;
  int64_t encoders_cached = 0;
  int64_t streams = 0;
  Receiving::Load receiving = {};
  int64_t connections = 0;
  int64_t connections_refused = 0;
  AdmissionLimits limits = {};
  std::map<std::string, double> cost_factors = {};
};

enum class ShadowResult { kMatch, kMismatch, kSkipped };

// Thread-safe.
class Metrics {
 public:
  explicit Metrics(const MetricsInfo& info);
  ~Metrics();

  void CallStarted(Method method);
  void MessageReceived(Method method);
  void MessageSent(Method method);
  // `code` is a grpc::StatusCode.
  void CallHandled(Method method, int code, double seconds);

  // Adds the series of encodings and tenants that have none: at start and with
  // every reload.
  void AddLabels(const std::vector<std::string>& encodings,
                 absl::Span<const Tenant> tenants);

  // Predicted worker seconds of a request that arrived, wanted or not, except
  // of repeated attempts: the demand that scaling follows.
  void Offered(int tenant, double worker_seconds);
  void Admitted(double worker_seconds);
  void Rejected(Reason reason);
  void Expired(EndedIn stage);
  void Cancelled(EndedIn stage);
  void StageTook(Stage stage, double seconds);
  // A request of Attend or AttendStream answered with OK.
  void Answered(Method method, absl::string_view encoding, double seconds,
                double flops, double query_rows);
  // A new configuration was taken over, or refused.
  void Reloaded(bool ok);
  // Files of TLS that changed were taken over, or refused.
  void TlsReloaded(bool ok);
  // An answer that the shadow check picked.
  void ShadowChecked(ShadowResult result);
  // Measured over predicted cost of a finished request.
  void CostRatio(double measured_over_predicted);

  // The exposition text; contains no NaN and no infinity but le="+Inf".
  std::string Text(const MetricsReadings& readings);

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_METRICS_H_
