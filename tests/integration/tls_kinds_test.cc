// What gRPC makes of certificates, beside what is said of them before.
#include "tests/server/tls_kinds.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/http.h"

namespace attnd::testing {
namespace {

struct Free {
  void operator()(BIO* text) const { BIO_free(text); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* end) const { SSL_free(end); }
};
using Text = std::unique_ptr<BIO, Free>;

Text TextOf(const std::string& pem) {
  return Text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Whether a client that takes every certificate gets the first bytes of HTTP/2.
bool Answers(int port, const TlsKind& kind) {
  const std::unique_ptr<SSL_CTX, Free> context(SSL_CTX_new(TLS_method()));
  SSL_CTX_set_security_level(context.get(), 0);
  SSL_CTX_set_alpn_protos(context.get(),
                          reinterpret_cast<const unsigned char*>("\x02h2"), 3);
  if (!kind.client_key.empty()) {
    const std::unique_ptr<X509, Free> certificate(PEM_read_bio_X509(
        TextOf(kind.client_certificate).get(), nullptr, nullptr, nullptr));
    const std::unique_ptr<EVP_PKEY, Free> key(PEM_read_bio_PrivateKey(
        TextOf(kind.client_key).get(), nullptr, nullptr, nullptr));
    SSL_CTX_use_certificate(context.get(), certificate.get());
    SSL_CTX_use_PrivateKey(context.get(), key.get());
  }
  const int socket = HttpConnect(absl::StrCat("127.0.0.1:", port));
  const std::unique_ptr<SSL, Free> client(SSL_new(context.get()));
  SSL_set_fd(client.get(), socket);
  char byte;
  const bool answers =
      SSL_connect(client.get()) == 1 && SSL_read(client.get(), &byte, 1) == 1;
  close(socket);
  return answers;
}

bool GrpcServes(const TlsKind& kind) {
  grpc::SslServerCredentialsOptions options(
      kind.authorities.empty()
          ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
          : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs = {{kind.key, kind.certificates}};
  options.pem_root_certs = kind.authorities;
  grpc::CallbackGenericService service;
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&service);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options),
                           &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return false;
  const bool answers = Answers(port, kind);
  server->Shutdown(std::chrono::system_clock::now());
  return answers;
}

// Neither is a good pair refused, nor a bad one let through.
TEST(TlsKinds, AreGoodWhereGrpcServesThem) {
  for (const TlsKind& kind : TlsKinds()) {
    // gRPC leaves out what follows a certificate that it cannot read.
    const bool served = kind.fault.empty() || kind.name == "a broken chain";
    EXPECT_EQ(GrpcServes(kind), served) << kind.name;
  }
}

}  // namespace
}  // namespace attnd::testing
