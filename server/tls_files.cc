#include "server/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace attnd::server {
namespace {

// Those of gRPC below TLS 1.3.
constexpr char kCiphers[] =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384";

struct Free {
  void operator()(BIO* text) const { BIO_free(text); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* end) const { SSL_free(end); }
};
using Text = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<SSL_CTX, Free>;
using End = std::unique_ptr<SSL, Free>;

Text TextOf(const std::string& pem) {
  return Text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// A key with a passphrase is none: nobody is there to be asked.
int NoPassphrase(char*, int, int, void*) { return -1; }

// Empty unless there are some and all can be read.
std::vector<Certificate> CertificatesOf(const std::string& pem) {
  const Text text = TextOf(pem);
  std::vector<Certificate> all;
  ERR_clear_error();
  while (Certificate each{
      PEM_read_bio_X509(text.get(), nullptr, NoPassphrase, nullptr)}) {
    all.push_back(std::move(each));
  }
  const bool to_the_end =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!to_the_end) all.clear();
  return all;
}

constexpr char kNoCertificate[] = "holds no PEM certificate, or a broken one";

// One of the files of a listener.
struct File {
  absl::string_view field;
  const std::string& path;

  absl::Status Unusable(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("tls.", field, ": ", path, ": ", what));
  }
};

absl::Status Read(const File& file, std::string& contents) {
  std::ifstream stream(file.path);
  std::stringstream text;
  text << stream.rdbuf();
  contents = text.str();
  return stream ? absl::OkStatus() : file.Unusable("cannot be read");
}

// Why the last call of OpenSSL's failed.
std::string Reason() {
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return absl::StrCat("TLS cannot use it: ",
                      reason == nullptr ? "no reason given" : reason);
}

Context ServerContext() {
  Context server(SSL_CTX_new(TLS_method()));
  SSL_CTX_set_min_proto_version(server.get(), TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(server.get(), kCiphers);
  SSL_CTX_set1_groups_list(server.get(), "P-256");
  return server;
}

// Lets a client that takes everything shake hands with the server; "" when
// both are content. Weak certificates in the chain are found here alone.
std::string TryHandshake(SSL_CTX* server_context) {
  const Context client_context(SSL_CTX_new(TLS_method()));
  SSL_CTX_set_security_level(client_context.get(), 0);
  const End client(SSL_new(client_context.get())),
      server(SSL_new(server_context));
  BIO *client_side = nullptr, *server_side = nullptr;
  BIO_new_bio_pair(&client_side, 0, &server_side, 0);
  SSL_set_bio(client.get(), client_side, client_side);
  SSL_set_bio(server.get(), server_side, server_side);
  SSL_set_connect_state(client.get());
  SSL_set_accept_state(server.get());
  // Each has its turn; far fewer are needed.
  for (int turn = 0; turn < 100; ++turn) {
    bool done = true;
    for (SSL* end : {client.get(), server.get()}) {
      const int result = SSL_do_handshake(end);
      if (result == 1) continue;
      done = false;
      const int error = SSL_get_error(end, result);
      if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) {
        return Reason();
      }
    }
    if (done) return "";
  }
  return "TLS cannot use it: the handshake does not end";
}

// What an authority vouches for counts only where its own key is strong enough.
bool MayVouch(const Certificate& authority) {
  const Context context(SSL_CTX_new(TLS_method()));
  const bool may = SSL_CTX_add1_chain_cert(context.get(), authority.get()) == 1;
  if (may) ERR_clear_error();
  return may;
}

// The certificate, the chain that it comes with, and the key, as gRPC has them
// used when a connection comes.
absl::Status Use(const File& certificate_file,
                 const std::vector<Certificate>& chain, const File& key_file,
                 const std::string& key_text, SSL_CTX* server) {
  const Key key(PEM_read_bio_PrivateKey(TextOf(key_text).get(), nullptr,
                                        NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr)
    return key_file.Unusable(
        "holds no PEM private key, or one with a passphrase");
  const bool match = X509_check_private_key(chain[0].get(), key.get()) == 1;
  ERR_clear_error();
  if (!match) return key_file.Unusable("is not the key of the certificate");
  if (SSL_CTX_use_certificate(server, chain[0].get()) != 1) {
    return certificate_file.Unusable(Reason());
  }
  if (SSL_CTX_use_PrivateKey(server, key.get()) != 1) {
    return key_file.Unusable(Reason());
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    // Owns one reference more. Weak ones are found by the handshake.
    X509_up_ref(chain[i].get());
    SSL_CTX_add_extra_chain_cert(server, chain[i].get());
  }
  return absl::OkStatus();
}

// Clients must show certificates of these.
absl::Status Trust(const File& file, const std::string& authorities_text,
                   SSL_CTX* server) {
  const std::vector<Certificate> authorities = CertificatesOf(authorities_text);
  if (authorities.empty()) return file.Unusable(kNoCertificate);
  if (std::none_of(authorities.begin(), authorities.end(), MayVouch)) {
    return file.Unusable(Reason());
  }
  for (const Certificate& each : authorities) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(server), each.get());
    SSL_CTX_add_client_CA(server, each.get());
  }
  // Asks; only a client of the authorities' could answer.
  SSL_CTX_set_verify(server, SSL_VERIFY_PEER, nullptr);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsFiles> ReadTlsFiles(const v1::Tls& tls) {
  const File certificate{"certificate_file", tls.certificate_file()},
      key{"key_file", tls.key_file()},
      authority{"client_ca_file", tls.client_ca_file()};
  const bool mutual = !tls.client_ca_file().empty();
  TlsFiles files;
  absl::Status status = Read(certificate, files.certificates);
  if (status.ok()) status = Read(key, files.key);
  if (status.ok() && mutual) status = Read(authority, files.authorities);
  if (!status.ok()) return status;

  const std::vector<Certificate> chain = CertificatesOf(files.certificates);
  if (chain.empty()) return certificate.Unusable(kNoCertificate);
  const Context server = ServerContext();
  status = Use(certificate, chain, key, files.key, server.get());
  if (status.ok() && mutual) {
    status = Trust(authority, files.authorities, server.get());
  }
  if (!status.ok()) return status;
  // TlsCredentials gives them for authorities.
  for (size_t i = 0; !mutual && i < chain.size(); ++i) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(server.get()), chain[i].get());
  }
  ERR_clear_error();
  const std::string fault = TryHandshake(server.get());
  if (!fault.empty()) return certificate.Unusable(fault);
  return files;
}

}  // namespace attnd::server
