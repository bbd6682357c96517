// The configured encodings with their numbers at the sizes asked for.
#ifndef ATTND_SERVER_LIST_ENCODINGS_H_
#define ATTND_SERVER_LIST_ENCODINGS_H_

#include <atomic>

#include "absl/status/status.h"
#include "attnd/v1/attention.pb.h"
#include "server/encodings.h"

namespace attnd::server {

// Names that a request may have, repeated ones included.
inline constexpr int kMaxListNames = 4096;

// INVALID_ARGUMENT for more names than that, sizes beyond the limits, or head
// counts that do not divide.
absl::Status CheckListing(const v1::ListEncodingsRequest& request,
                          const v1::Limits& limits);

// Fills `encodings` of the reply, each once, in the order of their first names.
// INVALID_ARGUMENT as CheckListing says, and where an encoding asked for by
// name does not fit the sizes; in a list of all such a one tells why instead.
// NOT_FOUND for an unknown name. RESOURCE_EXHAUSTED when the reply would exceed
// limits.message_bytes, before more is made. CANCELLED when `stop` becomes
// true, looked at between encodings.
absl::Status ListEncodings(const EncodingCatalog& catalog,
                           const v1::Limits& limits,
                           const v1::ListEncodingsRequest& request,
                           v1::ListEncodingsResponse& reply,
                           const std::atomic<bool>* stop = nullptr);

}  // namespace attnd::server

#endif  // ATTND_SERVER_LIST_ENCODINGS_H_
