// From what gRPC hands over to an absl::Status.
#ifndef ATTND_CLIENT_STATUS_FROM_WIRE_H_
#define ATTND_CLIENT_STATUS_FROM_WIRE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

// Code and text as they are (a code that gRPC does not define becomes UNKNOWN),
// and every detail of `details_bin`, a serialized google.rpc.Status, as a
// payload under its type URL. Bytes that do not parse add nothing: the code and
// text are still true.
absl::Status StatusFromWire(int code, absl::string_view message,
                            const std::string& details_bin);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_STATUS_FROM_WIRE_H_
