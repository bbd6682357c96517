// Puts the parts together, starts them, and takes them down in the right order.
#ifndef ATTND_SERVER_SERVER_H_
#define ATTND_SERVER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/config.h"
#include "server/machine.h"
#include "server/service_context.h"

namespace attnd::server {

// Names of the health service. Liveness stays SERVING while draining: a
// draining process must not be killed for it.
inline constexpr char kServiceHealthName[] = "attnd.v1.AttentionScoring";
inline constexpr char kLivenessHealthName[] = "liveness";

struct ServerOptions {
  // What computes a unit; empty = the kernels. For tests of slow or failing
  // work: a configuration cannot reach it.
  RunUnitFunction run_unit;
  // See pace.h; 1 = as fast as it can.
  double pace = 1;
};

// One gRPC server, one admin port, and a second gRPC server for health where
// TLS asks for it.
class Server {
 public:
  // Compiles encodings, calibrates, tests itself, then listens: whoever can
  // connect finds it SERVING. UNAVAILABLE when a port is taken.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const Config& config, const Machine& machine,
      const ServerOptions& options = {});
  // Stops at once, without drain, if Drain was not called.
  ~Server();

  // Of each listener, with the real port; in the order of the configuration.
  absl::Span<const std::string> addresses() const;
  // "host:port", or "off".
  const std::string& admin_address() const;

  // Of each plain health endpoint beside TLS.
  absl::Span<const std::string> health_addresses() const;

  // Takes over another configuration: encodings, limits, tenants, access, drain
  // and verification; requests that have begun end under the old one. What is
  // wrong, or needs a restart (FAILED_PRECONDITION), leaves everything as it
  // was. Thread-safe, also beside Drain, which does not wait for it.
  absl::Status Reload(const Config& config);
  // Takes over the configuration in force anew where a file that it names has
  // changed: a token is revoked also beside a new configuration that is
  // refused. Thread-safe.
  void RefreshFiles();
  // Counts and logs a changed configuration that could not be read.
  void RefuseReload(const absl::Status& status);

  // NOT_SERVING; serves on for drain.delay_seconds; refuses new calls with
  // RetryInfo and closes idle connections (GOAWAY); waits up to
  // drain.grace_seconds for what is in flight, then cancels it. Returns when
  // nothing runs any more. Call once.
  void Drain();

  // Series text and load, as /metrics shows them; for tests.
  std::string MetricsText() const;

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_SERVER_H_
