// Certificates and keys of many kinds, made when they are first asked for.
#ifndef ATTND_TESTS_SERVER_TLS_KINDS_H_
#define ATTND_TESTS_SERVER_TLS_KINDS_H_

#include <string>
#include <vector>

namespace attnd::testing {

// All PEM.
struct TlsKind {
  std::string name;
  std::string certificates, key;
  std::string authorities;  // empty: clients need no certificate
  // What is said of it, and of which file; empty: it can be used.
  std::string fault;
  // Of a client that the authorities vouch for.
  std::string client_certificate, client_key;
};

const std::vector<TlsKind>& TlsKinds();

}  // namespace attnd::testing

#endif  // ATTND_TESTS_SERVER_TLS_KINDS_H_
