#include "client/named_files.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace attnd::client {
namespace {

namespace fs = std::filesystem;

template <typename... Parts>
absl::Status Wrong(const NamedFile& file, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat(file.option, " ", file.path, ": ", parts...));
}

// A device or pipe: keeps nothing, so that it can be named by many.
bool KeepsNothing(const fs::file_status& status) {
  return fs::exists(status) && !fs::is_regular_file(status) &&
         !fs::is_directory(status);
}

absl::Status CheckPlace(const NamedFile& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file.path, error);
  if (fs::is_directory(status)) {
    return Wrong(file, "is a folder, expected a file");
  }
  if (KeepsNothing(status)) {
    return access(file.path.c_str(), W_OK) == 0
               ? absl::OkStatus()
               : Wrong(file, "cannot be written to");
  }
  const fs::path folder = fs::path(file.path).parent_path();
  const std::string place = folder.empty() ? "." : folder.string();
  if (!fs::is_directory(place, error)) {
    return Wrong(file, "there is no folder '", place,
                 "'; make it first (mkdir -p), or name another");
  }
  if (access(place.c_str(), W_OK | X_OK) != 0) {
    return Wrong(file, "no file can be made in folder '", place,
                 "'; change its permissions, or name another");
  }
  return absl::OkStatus();
}

// One text for all spellings of one file; empty for what may be named twice.
std::string Identity(const NamedFile& file) {
  if (file.path == "-") return file.path;
  std::error_code error;
  if (KeepsNothing(fs::status(file.path, error))) return "";
  const fs::path whole = fs::weakly_canonical(fs::absolute(file.path), error);
  return error ? file.path : whole.string();
}

}  // namespace

absl::Status CheckFiles(const std::vector<NamedFile>& inputs,
                        const std::vector<NamedFile>& outputs) {
  // The options by what they read, and by what they write.
  std::map<std::string, std::string> read, written;
  for (const NamedFile& file : inputs) {
    if (file.path.empty()) continue;
    const auto [other, fresh] = read.emplace(Identity(file), file.option);
    if (!fresh && file.path == "-") {
      return Wrong(file, "standard input is already read by ", other->second);
    }
  }
  for (const NamedFile& file : outputs) {
    if (file.path.empty()) continue;
    const std::string identity = Identity(file);
    if (file.path != "-") {
      if (absl::Status bad = CheckPlace(file); !bad.ok()) return bad;
      const auto source = read.find(identity);
      if (!identity.empty() && source != read.end()) {
        return Wrong(file, "is what ", source->second,
                     " reads, and would be replaced; name another");
      }
    }
    const auto [other, fresh] = written.emplace(identity, file.option);
    if (!fresh && !identity.empty()) {
      return Wrong(file, "is where ", other->second,
                   " goes; each needs a file of its own");
    }
  }
  return absl::OkStatus();
}

}  // namespace attnd::client
