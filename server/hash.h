// Fingerprints of configurations and encodings.
#ifndef ATTND_SERVER_HASH_H_
#define ATTND_SERVER_HASH_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace attnd::server {

// Lower-case hex SHA-256.
std::string Sha256(absl::string_view bytes);

// The bytes of a message, the same for equal messages within one build.
std::string DeterministicBytes(const google::protobuf::Message& message);

}  // namespace attnd::server

#endif  // ATTND_SERVER_HASH_H_
