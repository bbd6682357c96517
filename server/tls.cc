#include "server/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <utility>
#include <vector>

namespace attnd::server {
namespace {

constexpr double kLookSeconds = 1;

// What gRPC asks for, when a connection comes, by a function of C.
class Credentials final : public grpc::ServerCredentials {
 public:
  explicit Credentials(grpc_server_credentials* credentials)
      : credentials_(credentials) {}
  ~Credentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

std::vector<std::string> PathsOf(const v1::Tls& tls) {
  std::vector<std::string> paths = {tls.certificate_file(), tls.key_file()};
  if (!tls.client_ca_file().empty()) paths.push_back(tls.client_ca_file());
  return paths;
}

}  // namespace

TlsCredentials::TlsCredentials(const v1::Tls& tls)
    : tls_(tls), watcher_(PathsOf(tls)) {}

absl::StatusOr<std::unique_ptr<TlsCredentials>> TlsCredentials::Make(
    const v1::Tls& tls, Told told) {
  // Before they are read: what changes in between is seen at the first look.
  std::unique_ptr<TlsCredentials> made(new TlsCredentials(tls));
  auto files = ReadTlsFiles(tls);
  if (!files.ok()) return files.status();
  made->files_ = *std::move(files);
  made->watcher_.Start(
      kLookSeconds,
      [made = made.get(), told = std::move(told)] { made->ReadAgain(told); });
  return made;
}

void TlsCredentials::ReadAgain(const Told& told) {
  auto files = ReadTlsFiles(tls_);
  const absl::Status status = files.status();
  if (status.ok()) {
    std::lock_guard lock(mutex_);
    files_ = *std::move(files);
    new_ = true;
  }
  told(status);
}

grpc_ssl_server_certificate_config* TlsCredentials::TakeNew() {
  std::lock_guard lock(mutex_);
  if (!std::exchange(new_, false)) return nullptr;
  const grpc_ssl_pem_key_cert_pair pair = {
      .private_key = files_.key.c_str(),
      .cert_chain = files_.certificates.c_str()};
  // It asserts that there are authorities, even where it asks for no
  // certificate that they could have signed; any do then.
  const std::string& authorities =
      files_.authorities.empty() ? files_.certificates : files_.authorities;
  return grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair,
                                                   1);
}

std::shared_ptr<grpc::ServerCredentials> TlsCredentials::ForServer() {
  const auto fetch = [](void* self, grpc_ssl_server_certificate_config** out) {
    *out = static_cast<TlsCredentials*>(self)->TakeNew();
    return *out == nullptr ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED
                           : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  };
  // Takes over the options.
  return std::make_shared<Credentials>(
      grpc_ssl_server_credentials_create_with_options(
          grpc_ssl_server_credentials_create_options_using_config_fetcher(
              tls_.client_ca_file().empty()
                  ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                  : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
              fetch, this)));
}

}  // namespace attnd::server
