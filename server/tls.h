// TLS of a listener: files checked before, and read again while, they are used.
#ifndef ATTND_SERVER_TLS_H_
#define ATTND_SERVER_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/statusor.h"
#include "attnd/v1/config.pb.h"
#include "server/file_watcher.h"
#include "server/tls_files.h"

struct grpc_ssl_server_certificate_config;

namespace attnd::server {

// Looks at the files every second and gives new ones to new connections; those
// that exist go on. What cannot be used changes nothing: unlike
// FileWatcherCertificateProvider of gRPC, which then has no certificate at all.
class TlsCredentials {
 public:
  // What came of files that changed; on a thread of this.
  using Told = std::function<void(const absl::Status&)>;

  // As ReadTlsFiles.
  static absl::StatusOr<std::unique_ptr<TlsCredentials>> Make(
      const v1::Tls& tls, Told told);

  // For one port. This must outlive the server that has it. With
  // `client_ca_file` clients must show a certificate of that authority.
  std::shared_ptr<grpc::ServerCredentials> ForServer();

 private:
  explicit TlsCredentials(const v1::Tls& tls);
  void ReadAgain(const Told& told);
  // Null if the connections have it already.
  grpc_ssl_server_certificate_config* TakeNew();

  const v1::Tls tls_;
  std::mutex mutex_;  // guards the two below
  TlsFiles files_;    // the last good ones
  bool new_ = true;
  FileWatcher watcher_;  // last: it ends before what its thread uses
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_TLS_H_
