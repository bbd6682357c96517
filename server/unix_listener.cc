#include "server/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace attnd::server {
namespace {

absl::Status Failure(int error) {
  return absl::UnavailableError(std::strerror(error));
}

// Of a socket's file; nullopt if it is none.
std::optional<struct stat> SocketFileAt(const std::string& path) {
  struct stat file;
  if (lstat(path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) {
    return std::nullopt;
  }
  return file;
}

bool Same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int NewSocket() {
  return ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

// An errno, 0 if somebody listens. Does not wait: where an owner that is
// stopped has no room for connections, that is EAGAIN.
int TryConnect(const sockaddr_un& address) {
  const int probe = NewSocket();
  if (probe < 0) return errno;
  const int error = connect(probe, reinterpret_cast<const sockaddr*>(&address),
                            sizeof(address)) == 0
                        ? 0
                        : errno;
  close(probe);
  return error;
}

// Removes the file of a process that has ended.
absl::Status MakeRoom(const std::string& path, const sockaddr_un& address) {
  struct stat any;
  if (lstat(path.c_str(), &any) != 0) return absl::OkStatus();
  const std::optional<struct stat> before = SocketFileAt(path);
  if (!before) {
    return absl::UnavailableError(
        "a file that is no socket is there; remove it, or choose another path");
  }
  const int error = TryConnect(address);
  if (error == 0 || error == EAGAIN) {
    return absl::UnavailableError("another server listens there");
  }
  if (error != ECONNREFUSED) return Failure(error);
  // Another server may have taken the place of the dead one just now.
  const std::optional<struct stat> now = SocketFileAt(path);
  if (now && Same(*now, *before)) unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace

UnixListener::UnixListener(int socket, std::string path)
    : socket_(socket), path_(std::move(path)) {
  if (const auto file = SocketFileAt(path_)) {
    device_ = file->st_dev;
    inode_ = file->st_ino;
  }
}

absl::StatusOr<UnixListener> UnixListener::Listen(const std::string& path,
                                                  mode_t mode) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Failure(ENAMETOOLONG);
  std::memcpy(address.sun_path, path.data(), path.size());
  absl::Status room = MakeRoom(path, address);
  if (!room.ok()) return room;
  const int socket = NewSocket();
  if (socket < 0) return Failure(errno);
  const mode_t before = umask(0177);
  const bool bound = bind(socket, reinterpret_cast<const sockaddr*>(&address),
                          sizeof(address)) == 0;
  int error = errno;
  umask(before);
  if (!bound) {
    close(socket);
    return Failure(error);
  }
  const UnixListener listener(socket, path);
  if (listen(socket, SOMAXCONN) == 0 && chmod(path.c_str(), mode) == 0) {
    return listener;
  }
  error = errno;
  listener.Close();
  return Failure(error);
}

void UnixListener::Close() const {
  // The file first: once the socket is closed its number is free again.
  const std::optional<struct stat> file = SocketFileAt(path_);
  if (file && file->st_dev == device_ && file->st_ino == inode_) {
    unlink(path_.c_str());
  }
  close(socket_);
}

}  // namespace attnd::server
