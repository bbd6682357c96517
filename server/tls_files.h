// The files of TLS, checked before gRPC gets them.
#ifndef ATTND_SERVER_TLS_FILES_H_
#define ATTND_SERVER_TLS_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "attnd/v1/config.pb.h"

namespace attnd::server {

// What they hold, PEM.
struct TlsFiles {
  std::string certificates;  // the server's own first, then its chain
  std::string key;
  std::string authorities;  // empty if clients need no certificate
};

// INVALID_ARGUMENT, with OpenSSL's reason, unless a client could connect to a
// server that has them: the files hold certificates, the key that belongs to
// the first and, if named, at least one certificate of an authority that may
// vouch for anybody; all of them can be read to the end; and OpenSSL, set up as
// gRPC does, completes a handshake with them. Dates and names are the client's
// to judge.
absl::StatusOr<TlsFiles> ReadTlsFiles(const v1::Tls& tls);

}  // namespace attnd::server

#endif  // ATTND_SERVER_TLS_FILES_H_
