// TLS of a listener: files checked before, and read again while, they are used.
#ifndef ATTND_SERVER_TLS_H_
#define ATTND_SERVER_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "absl/status/status.h"
#include "attnd/v1/config.pb.h"

namespace attnd::server {

// INVALID_ARGUMENT unless the files hold a certificate, the key that belongs to
// it and, if named, at least one certificate of an authority.
absl::Status CheckTlsFiles(const v1::Tls& tls);

// Credentials that look at the files every second and use new ones for new
// connections; those that exist go on. With `client_ca_file` clients must show
// a certificate of that authority.
std::shared_ptr<grpc::ServerCredentials> MakeTlsCredentials(const v1::Tls& tls);

}  // namespace attnd::server

#endif  // ATTND_SERVER_TLS_H_
