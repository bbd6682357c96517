// The C++ client of attnd: attention over gRPC with one deadline per call,
// retries that obey the server, and errors that say what was wrong.
//
//   absl::StatusOr<Client> client =
//       Client::Create({.endpoints = {"attnd.example:50051"}});
//   if (!client.ok()) return client.status();
//   absl::StatusOr<v1::AttendResponse> answer = client->Attend(request);
//
// client/request.h builds requests from plain arrays, client/error_details.h
// reads what a refusal carries. This library never prints and reads no
// environment variable.
#ifndef ATTND_CLIENT_CLIENT_H_
#define ATTND_CLIENT_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attnd/v1/attention.pb.h"

namespace attnd::client {

// Bound on a message in either direction unless an option says otherwise: the
// server's own default.
inline constexpr int64_t kDefaultMessageBytes = int64_t{128} << 20;

// Shortest keepalive interval that Create() accepts. Servers close connections
// that ping more often than their policy allows (too_many_pings).
inline constexpr absl::Duration kMinKeepaliveTime = absl::Seconds(30);

// Encryption and identity. All members are PEM text, not file names.
struct TlsOptions {
  // Authorities to trust; empty = those of the system.
  std::string root_certificates = {};
  // Own certificate chain and key for servers that ask for one; both or none.
  std::string certificate_chain = {};
  std::string private_key = {};
  // Name that the server's certificate must carry; empty = the endpoint's.
  std::string server_name = {};
};

struct ClientOptions {
  // "host:port", "[::1]:port", "unix:/path" or any gRPC target name. A host
  // name that resolves to many addresses (a headless Kubernetes service:
  // "dns:///attnd:50051") is balanced over all of them. Several entries must
  // all be IPv4 or all be IPv6 addresses with ports.
  std::vector<std::string> endpoints = {"127.0.0.1:50051"};
  // Largest request and answer, bytes, 1 to 2^31 - 1.
  int64_t message_bytes = kDefaultMessageBytes;
  // Time for a whole call, retries and waits included, when CallOptions names
  // none.
  absl::Duration timeout = absl::Seconds(60);
  // Attempts per call, the first included, >= 1; see Client.
  int max_attempts = 4;
  // Absent = plain text.
  std::optional<TlsOptions> tls = std::nullopt;
  // Sent with every call: a tenant ("x-attnd-tenant"), a bearer token
  // ("authorization"). Names of a-z 0-9 _ . - that are not gRPC's own
  // ("grpc-..."), values of printable ASCII, or any bytes where the name ends
  // in "-bin".
  std::vector<std::pair<std::string, std::string>> metadata = {};
  // While calls are under way the connection is pinged this often and given up
  // when a ping stays unanswered for `keepalive_timeout`.
  absl::Duration keepalive_time = absl::Seconds(60);
  absl::Duration keepalive_timeout = absl::Seconds(20);
  // Leave out endpoints that report NOT_SERVING. Without any healthy endpoint
  // calls fail with UNAVAILABLE.
  bool health_checked = true;
  // Go through the proxy that http_proxy names. Off: the service is next door.
  bool http_proxy = false;
};

// What it took to get an answer.
struct CallReport {
  // Calls made, the first included.
  int attempts = 0;
  // Time spent waiting between attempts.
  absl::Duration waited;
};

struct CallOptions {
  // Absent = ClientOptions::timeout; absl::InfiniteDuration() = none.
  std::optional<absl::Duration> timeout = std::nullopt;
  // Absent = ClientOptions::max_attempts.
  std::optional<int> max_attempts = std::nullopt;
  // Sent beside ClientOptions::metadata.
  std::vector<std::pair<std::string, std::string>> metadata = {};
  // Wait for an endpoint to come up, as long as the deadline allows, instead of
  // failing at once with UNAVAILABLE.
  bool wait_for_ready = false;
  // Filled in before the call returns, whatever the outcome; not owned.
  CallReport* report = nullptr;
};

// The states of grpc.health.v1.
enum class Health {
  kUnknown = 0,
  kServing = 1,
  kNotServing = 2,
  kNoService = 3
};

// Connections to one service.
//
// Calls block. They return OK, or the status of the server or of gRPC with its
// code kept one to one, its text kept word for word and its details attached
// (client/error_details.h). A call is made again exactly when the server sent
// RetryInfo with the refusal (full queue, draining, tenant quota): after the
// delay it named plus up to 20 %, unless that passes the deadline or
// `max_attempts` is used up; then the refusal itself is returned. Nothing else
// is retried: the answer would be the same, or the work would be done twice.
// Attempts after the first carry x-attnd-previous-attempts, their number less
// one. gRPC itself only repeats calls that no server has seen.
//
// A request above `message_bytes` is refused here with RESOURCE_EXHAUSTED.
//
// Thread-safe: share one Client between all threads; each owns its connections
// and costs a handshake. Movable, not copyable; a moved-from Client may only be
// destroyed or assigned to. Destroy it after its calls have returned.
class Client {
 public:
  // Checks the options and prepares connections, which are made by the first
  // call. InvalidArgument names the option that is wrong.
  static absl::StatusOr<Client> Create(ClientOptions options);

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Attention; the shapes stand at v1::AttendRequest.
  absl::StatusOr<v1::AttendResponse> Attend(const v1::AttendRequest& request,
                                            const CallOptions& call = {}) const;

  // What a request would cost. Send it without `data`.
  absl::StatusOr<v1::EstimateResponse> Estimate(
      const v1::EstimateRequest& request, const CallOptions& call = {}) const;

  // The configured encodings with their resolved numbers.
  absl::StatusOr<v1::ListEncodingsResponse> ListEncodings(
      const v1::ListEncodingsRequest& request = {},
      const CallOptions& call = {}) const;

  // Version, limits, workers, configuration.
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(
      const CallOptions& call = {}) const;

  // State of a service ("" = the whole server) by the standard health protocol,
  // over a connection of its own that `health_checked` does not close.
  // NotFound: the server does not know the name.
  absl::StatusOr<Health> CheckHealth(const std::string& service = "",
                                     const CallOptions& call = {}) const;

  // Calls `on_change` with the present state and with each new one until it
  // returns false (OK) or the stream ends (why it did). No deadline unless
  // `call` names one. An unknown name is state kNoService.
  absl::Status WatchHealth(const std::string& service,
                           const std::function<bool(Health)>& on_change,
                           const CallOptions& call = {}) const;

  // True as soon as a connection is ready for calls (healthy, with
  // `health_checked`); false after `timeout`.
  bool WaitUntilReady(absl::Duration timeout) const;

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_CLIENT_H_
