#include "server/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace attnd::server {
namespace {

constexpr double kLookSeconds = 1;

struct Free {
  void operator()(BIO* text) const { BIO_free(text); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Text = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

Text TextOf(const std::string& pem) {
  return Text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// A file that cannot be read is as good as an empty one.
std::string Contents(const std::string& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

// A key with a passphrase is none: nobody is there to be asked.
int NoPassphrase(char*, int, int, void*) { return -1; }

// The first of at least one certificate; null unless all can be read.
Certificate FirstOf(const std::string& pem) {
  const Text text = TextOf(pem);
  Certificate first;
  ERR_clear_error();
  while (Certificate each{
      PEM_read_bio_X509(text.get(), nullptr, NoPassphrase, nullptr)}) {
    if (first == nullptr) first = std::move(each);
  }
  const bool to_the_end =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return to_the_end ? std::move(first) : nullptr;
}

absl::Status Unusable(absl::string_view field, const std::string& path,
                      absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tls.", field, ": ", path, ": ", what));
}

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

absl::StatusOr<TlsFiles> ReadTlsFiles(const v1::Tls& tls) {
  TlsFiles files = {.certificates = Contents(tls.certificate_file()),
                    .key = Contents(tls.key_file()),
                    .authorities = {}};
  const Certificate certificate = FirstOf(files.certificates);
  if (certificate == nullptr) {
    return Unusable("certificate_file", tls.certificate_file(),
                    "holds no PEM certificate, or a broken one");
  }
  const Key key(PEM_read_bio_PrivateKey(TextOf(files.key).get(), nullptr,
                                        NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return Unusable("key_file", tls.key_file(), "holds no PEM private key");
  }
  const bool match = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!match) {
    return Unusable("key_file", tls.key_file(),
                    "is not the key of the certificate");
  }
  if (tls.client_ca_file().empty()) return files;
  files.authorities = Contents(tls.client_ca_file());
  if (FirstOf(files.authorities) == nullptr) {
    return Unusable("client_ca_file", tls.client_ca_file(),
                    "holds no PEM certificate, or a broken one");
  }
  return files;
}

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
  if (files.ok()) {
    std::lock_guard lock(mutex_);
    files_ = *std::move(files);
    new_ = true;
  }
  told(files.status());
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
