// One GET of a plain HTTP page, as Prometheus scrapes it.
#ifndef ATTND_CLIENT_HTTP_GET_H_
#define ATTND_CLIENT_HTTP_GET_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace attnd::client {

// The body of http://HOST[:PORT][/PATH] ("[::1]" for IPv6). No TLS, no
// redirects, at most 16 MiB. InvalidArgument for another form of address;
// Unavailable, DeadlineExceeded or FailedPrecondition (an answer other than
// 200) otherwise.
absl::StatusOr<std::string> HttpGet(const std::string& url,
                                    absl::Duration timeout);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_HTTP_GET_H_
