// A listening Unix socket and its file.
#ifndef ATTND_SERVER_UNIX_LISTENER_H_
#define ATTND_SERVER_UNIX_LISTENER_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace attnd::server {

class UnixListener {
 public:
  // Listens on a path, whose file gets `mode` and is never more open. A file
  // that an earlier process left is replaced. UNAVAILABLE says why not: another
  // server listens there, even one that is stopped, or the file is no socket.
  static absl::StatusOr<UnixListener> Listen(const std::string& path,
                                             mode_t mode);

  int socket() const { return socket_; }
  // Ends it. The file goes too, unless another server's has its place by now.
  void Close() const;

 private:
  UnixListener(int socket, std::string path);

  int socket_;
  std::string path_;
  // Of the file; no other has them while the socket is open.
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_UNIX_LISTENER_H_
