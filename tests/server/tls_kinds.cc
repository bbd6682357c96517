#include "tests/server/tls_kinds.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <utility>

namespace attnd::testing {
namespace {

struct Free {
  void operator()(BIO* text) const { BIO_free(text); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;

Key Rsa(size_t bits) { return Key(EVP_RSA_gen(bits)); }
Key Curve(const char* name) { return Key(EVP_EC_gen(name)); }
Key Edwards(const char* name) {
  return Key(EVP_PKEY_Q_keygen(nullptr, nullptr, name));
}
Key RsaPss() {
  const std::unique_ptr<EVP_PKEY_CTX, Free> context(
      EVP_PKEY_CTX_new_from_name(nullptr, "RSA-PSS", nullptr));
  EVP_PKEY* key = nullptr;
  EVP_PKEY_keygen_init(context.get());
  EVP_PKEY_keygen(context.get(), &key);
  return Key(key);
}

struct Identity {
  Key key;
  Certificate certificate;
};

// Of itself where nobody issues it.
Identity Issue(Key key, const char* name, bool authority,
               const Identity* issuer = nullptr,
               const EVP_MD* digest = EVP_sha256()) {
  static long serial = 0;
  Identity made{std::move(key), Certificate(X509_new())};
  X509* x = made.certificate.get();
  X509_set_version(x, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(x), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x), 86400);
  // Nameless where it is empty, as certificates with a SAN alone are.
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name), -1,
                             -1, 0);
  const X509* by = issuer == nullptr ? x : issuer->certificate.get();
  X509_set_issuer_name(x, X509_get_subject_name(by));
  X509_set_pubkey(x, made.key.get());
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, &context, NID_basic_constraints,
                          authority ? "critical,CA:TRUE" : "CA:FALSE");
  X509_add_ext(x, extension, -1);
  X509_EXTENSION_free(extension);
  EVP_PKEY* signer = issuer == nullptr ? made.key.get() : issuer->key.get();
  const int type = EVP_PKEY_get_base_id(signer);
  // These have a digest of their own.
  const bool edwards = type == EVP_PKEY_ED25519 || type == EVP_PKEY_ED448;
  X509_sign(x, signer, edwards ? nullptr : digest);
  return made;
}

std::string Written(const std::unique_ptr<BIO, Free>& text) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return {data, static_cast<size_t>(size)};
}

std::string Pem(const Certificate& certificate) {
  const std::unique_ptr<BIO, Free> text(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(text.get(), certificate.get());
  return Written(text);
}

std::string Pem(const Key& key, const char* passphrase = nullptr) {
  const std::unique_ptr<BIO, Free> text(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(
      text.get(), key.get(),
      passphrase == nullptr ? nullptr : EVP_aes_128_cbc(), passphrase,
      passphrase == nullptr ? 0
                            : static_cast<int>(std::string(passphrase).size()),
      nullptr, nullptr);
  return Written(text);
}

// As `openssl ecparam -genkey` writes one.
std::string PemWithParameters(const Key& key) {
  const std::unique_ptr<BIO, Free> text(BIO_new(BIO_s_mem()));
  PEM_write_bio_Parameters(text.get(), key.get());
  PEM_write_bio_PrivateKey_traditional(text.get(), key.get(), nullptr, nullptr,
                                       0, nullptr, nullptr);
  return Written(text);
}

TlsKind Of(const std::string& name, const Identity& server,
           const std::string& fault = "") {
  return {.name = name,
          .certificates = Pem(server.certificate),
          .key = Pem(server.key),
          .authorities = {},
          .fault = fault,
          .client_certificate = {},
          .client_key = {}};
}

TlsKind Alone(const std::string& name, Key key, const std::string& fault = "",
              const EVP_MD* digest = EVP_sha256()) {
  return Of(name, Issue(std::move(key), "server", false, nullptr, digest),
            fault);
}

// A root, an authority below it, and a server that this one vouches for.
TlsKind Chain(const std::string& name, Key root_key, Key between_key,
              const std::string& fault = "",
              const EVP_MD* digest = EVP_sha256()) {
  const Identity root = Issue(std::move(root_key), "root", true),
                 between = Issue(std::move(between_key), "between", true, &root,
                                 digest),
                 server = Issue(Curve("P-256"), "server", false, &between);
  TlsKind kind = Of(name, server, fault);
  kind.certificates += Pem(between.certificate) + Pem(root.certificate);
  return kind;
}

// A server whose clients show certificates of an authority.
TlsKind WithClients(const std::string& name, Key authority_key,
                    const std::string& fault = "",
                    const EVP_MD* digest = EVP_sha256()) {
  const Identity authority = Issue(std::move(authority_key),
                                   "clients' authority", true, nullptr, digest),
                 client = Issue(Curve("P-256"), "client", false, &authority);
  TlsKind kind = Alone(name, Curve("P-256"), fault);
  kind.authorities = Pem(authority.certificate);
  kind.client_certificate = Pem(client.certificate);
  kind.client_key = Pem(client.key);
  return kind;
}

void AddGood(std::vector<TlsKind>& kinds) {
  for (const char* curve : {"P-256", "P-384", "P-521"}) {
    kinds.push_back(Alone(curve, Curve(curve)));
  }
  for (const char* curve : {"ED25519", "ED448"}) {
    kinds.push_back(Alone(curve, Edwards(curve)));
  }
  for (const size_t bits : {2048, 4096}) {
    kinds.push_back(Alone("RSA-" + std::to_string(bits), Rsa(bits)));
  }
  kinds.push_back(Alone("RSA-PSS", RsaPss()));
  kinds.push_back(Alone("SHA-512", Rsa(2048), "", EVP_sha512()));
  kinds.push_back(Alone("SHA-1, its own issuer", Rsa(2048), "", EVP_sha1()));
  kinds.push_back(Chain("a chain", Curve("P-384"), Rsa(2048)));
  kinds.push_back(Chain("a chain of RSA", Rsa(2048), Rsa(2048)));
  kinds.push_back(WithClients("clients", Curve("P-256")));
  kinds.push_back(WithClients("clients of RSA", Rsa(2048)));
  kinds.push_back(WithClients("clients of ED25519", Edwards("ED25519")));
  kinds.push_back(
      WithClients("clients of an old root", Rsa(2048), "", EVP_sha1()));
  TlsKind weak_beside = WithClients("clients, a weak root too", Rsa(2048));
  weak_beside.authorities += WithClients("", Rsa(1024)).authorities;
  kinds.push_back(std::move(weak_beside));
  TlsKind together = Alone("one file for both", Curve("P-256"));
  together.certificates = together.key =
      "said by hand\n" + together.key + together.certificates;
  kinds.push_back(std::move(together));
  const Identity parameters = Issue(Curve("P-256"), "server", false);
  kinds.push_back(Of("a key with parameters", parameters));
  kinds.back().key = PemWithParameters(parameters.key);
  kinds.push_back(Of("nameless", Issue(Curve("P-256"), "", false)));
}

constexpr char kNoCertificate[] =
    "certificate_file: FILE: holds no PEM certificate, or a broken one";

void AddBad(std::vector<TlsKind>& kinds) {
  kinds.push_back(
      Alone("RSA-1024", Rsa(1024),
            "certificate_file: FILE: TLS cannot use it: ee key too small"));
  kinds.push_back(
      Chain("a weak authority", Curve("P-256"), Rsa(1024),
            "certificate_file: FILE: TLS cannot use it: ca key too small"));
  kinds.push_back(Chain(
      "an authority of SHA-1", Rsa(2048), Rsa(2048),
      "certificate_file: FILE: TLS cannot use it: ca md too weak", EVP_sha1()));
  kinds.push_back(
      WithClients("clients of a weak root", Rsa(1024),
                  "client_ca_file: FILE: TLS cannot use it: ca key too small"));
  TlsKind other = Alone("another's key", Curve("P-256"),
                        "key_file: FILE: is not the key of the certificate");
  other.key = Alone("", Curve("P-256")).key;
  kinds.push_back(std::move(other));
  const Identity locked = Issue(Curve("P-256"), "server", false);
  kinds.push_back(
      Of("a passphrase", locked,
         "key_file: FILE: holds no PEM private key, or one with a passphrase"));
  kinds.back().key = Pem(locked.key, "secret");
  TlsKind broken =
      Chain("a broken chain", Curve("P-256"), Curve("P-256"), kNoCertificate);
  broken.certificates.erase(broken.certificates.size() - 60, 20);
  kinds.push_back(std::move(broken));
  TlsKind cut =
      Alone("a certificate cut short", Curve("P-256"), kNoCertificate);
  cut.certificates.resize(cut.certificates.size() / 2);
  kinds.push_back(std::move(cut));
  TlsKind garbage = WithClients(
      "garbage for an authority", Curve("P-256"),
      "client_ca_file: FILE: holds no PEM certificate, or a broken one");
  garbage.authorities = "garbage";
  kinds.push_back(std::move(garbage));
}

}  // namespace

const std::vector<TlsKind>& TlsKinds() {
  static const auto* kinds = [] {
    auto* all = new std::vector<TlsKind>();
    AddGood(*all);
    AddBad(*all);
    return all;
  }();
  return *kinds;
}

}  // namespace attnd::testing
