// Whole files at once, with errors that name the path and the reason.
#ifndef ATTND_CLIENT_FILES_H_
#define ATTND_CLIENT_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

// Text that people or attnctl write: series, times, results, certificates.
inline constexpr int64_t kMaxTextBytes = int64_t{64} << 20;

// Arrays, and requests and states that hold them: four times the usual message.
inline constexpr int64_t kMaxArrayBytes = int64_t{512} << 20;

// Reads all of `path`; "-" is standard input. The code follows errno (NotFound,
// PermissionDenied, ...); ResourceExhausted for more than `max_bytes`, which
// bounds what a device or a pipe without an end takes.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes = kMaxTextBytes);

// Replaces `path` by `content`; "-" is standard output. The file appears whole
// or not at all: it is written beside its place and renamed. Its folder must be
// there.
absl::Status WriteFile(const std::string& path, absl::string_view content);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_FILES_H_
