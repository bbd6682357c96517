#include "client/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace attnd::client {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdin && file != stdout) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

absl::Status Failed(const std::string& path) {
  return absl::ErrnoToStatus(errno, path);
}

absl::Status WriteTo(File file, const std::string& path,
                     absl::string_view content) {
  if (file == nullptr) return Failed(path);
  const bool written = std::fwrite(content.data(), 1, content.size(),
                                   file.get()) == content.size() &&
                       std::fflush(file.get()) == 0;
  return written ? absl::OkStatus() : Failed(path);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes) {
  File file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return Failed(path);
  const auto above = [&](const auto& bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        path, ": ", bytes, " bytes, expected at most ", max_bytes));
  };
  // A file that says its size is refused before it is read.
  std::error_code error;
  const uintmax_t size =
      path == "-" ? 0 : std::filesystem::file_size(path, error);
  if (!error && size > static_cast<uintmax_t>(max_bytes)) return above(size);
  std::string content;
  char buffer[1 << 16];
  size_t count;
  while ((count = std::fread(buffer, 1, sizeof buffer, file.get())) > 0) {
    if (content.size() + count > static_cast<size_t>(max_bytes)) {
      return above(absl::StrCat("more than ", max_bytes));
    }
    content.append(buffer, count);
  }
  if (std::ferror(file.get()) != 0) return Failed(path);
  return content;
}

absl::Status WriteFile(const std::string& path, absl::string_view content) {
  if (path == "-") return WriteTo(File(stdout), path, content);
  std::error_code error;
  // Renaming over a device or pipe would replace it: those are written to.
  const std::filesystem::file_status present =
      std::filesystem::status(path, error);
  if (std::filesystem::exists(present) &&
      !std::filesystem::is_regular_file(present)) {
    return WriteTo(File(std::fopen(path.c_str(), "wb")), path, content);
  }
  const std::string draft = absl::StrCat(path, ".", getpid(), ".tmp");
  absl::Status status =
      WriteTo(File(std::fopen(draft.c_str(), "wb")), path, content);
  if (status.ok() && std::rename(draft.c_str(), path.c_str()) != 0) {
    status = Failed(path);
  }
  if (!status.ok()) std::remove(draft.c_str());
  return status;
}

}  // namespace attnd::client
