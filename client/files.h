// Whole files at once, with errors that name the path and the reason.
#ifndef ATTND_CLIENT_FILES_H_
#define ATTND_CLIENT_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

// Reads all of `path`; "-" is standard input. The code follows errno (NotFound,
// PermissionDenied, ...).
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Replaces `path` by `content`; "-" is standard output. The file appears whole
// or not at all: it is written beside its place and renamed. Its folder must be
// there.
absl::Status WriteFile(const std::string& path, absl::string_view content);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_FILES_H_
