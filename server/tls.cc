#include "server/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

namespace attnd::server {
namespace {

constexpr unsigned kRefreshSeconds = 1;

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

template <typename Thing, typename Function>
std::unique_ptr<Thing, Closer> ReadPem(const std::string& path,
                                       Function function) {
  const std::unique_ptr<std::FILE, Closer> file(std::fopen(path.c_str(), "re"));
  if (file == nullptr) return nullptr;
  return std::unique_ptr<Thing, Closer>(
      function(file.get(), nullptr, nullptr, nullptr));
}

absl::Status Unusable(absl::string_view field, const std::string& path,
                      absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("tls.", field, ": ", path, ": ", what));
}

}  // namespace

absl::Status CheckTlsFiles(const v1::Tls& tls) {
  const auto certificate = ReadPem<X509>(tls.certificate_file(), PEM_read_X509);
  if (certificate == nullptr) {
    return Unusable("certificate_file", tls.certificate_file(),
                    "holds no PEM certificate");
  }
  const auto key = ReadPem<EVP_PKEY>(tls.key_file(), PEM_read_PrivateKey);
  if (key == nullptr) {
    return Unusable("key_file", tls.key_file(), "holds no PEM private key");
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Unusable("key_file", tls.key_file(),
                    "is not the key of the certificate");
  }
  if (!tls.client_ca_file().empty() &&
      ReadPem<X509>(tls.client_ca_file(), PEM_read_X509) == nullptr) {
    return Unusable("client_ca_file", tls.client_ca_file(),
                    "holds no PEM certificate");
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(
    const v1::Tls& tls) {
  using grpc::experimental::FileWatcherCertificateProvider;
  const bool mutual = !tls.client_ca_file().empty();
  auto provider =
      mutual ? std::make_shared<FileWatcherCertificateProvider>(
                   tls.key_file(), tls.certificate_file(), tls.client_ca_file(),
                   kRefreshSeconds)
             : std::make_shared<FileWatcherCertificateProvider>(
                   tls.key_file(), tls.certificate_file(), kRefreshSeconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  if (mutual) {
    options.watch_root_certs();
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace attnd::server
