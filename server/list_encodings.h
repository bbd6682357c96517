// The configured encodings with their numbers at the sizes asked for.
#ifndef ATTND_SERVER_LIST_ENCODINGS_H_
#define ATTND_SERVER_LIST_ENCODINGS_H_

#include <atomic>

#include "absl/status/status.h"
#include "attnd/v1/attention.pb.h"
#include "server/encodings.h"

namespace attnd::server {

// Fills `encodings` of the reply. INVALID_ARGUMENT for sizes beyond the limits
// or head counts that do not divide, and where an encoding asked for by name
// does not fit them; in a list of all such a one tells why instead. NOT_FOUND
// for an unknown name. CANCELLED when `stop` becomes true, looked at between
// encodings.
absl::Status ListEncodings(const EncodingCatalog& catalog,
                           const v1::Limits& limits,
                           const v1::ListEncodingsRequest& request,
                           v1::ListEncodingsResponse& reply,
                           const std::atomic<bool>* stop = nullptr);

}  // namespace attnd::server

#endif  // ATTND_SERVER_LIST_ENCODINGS_H_
