// Accepts connections and hands them on: to gRPC, which in version 1.51 can
// neither bound their number nor listen on after it once ran out of files.
#ifndef ATTND_SERVER_CONNECTION_ACCEPTOR_H_
#define ATTND_SERVER_CONNECTION_ACCEPTOR_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/time_source.h"
#include "server/unix_listener.h"

namespace attnd::server {

// A connection beyond the limit, or for which there is no file descriptor, is
// accepted and closed at once, so that its client tries elsewhere and nobody
// behind it waits. Thread-safe.
class ConnectionAcceptor {
 public:
  // Takes over a connected socket.
  using Take = std::function<void(int socket)>;

  // At most `limit` connections, and no more than the process's limit of open
  // files allows when kSpareFiles are kept for everything else.
  explicit ConnectionAcceptor(int64_t limit);
  ~ConnectionAcceptor() { Close(); }

  // Listens on "host:port", where 0.0.0.0 and [::] stand for every address of
  // both families, or on "unix:/path", whose file gets `unix_mode`. The address
  // with the real port, or UNAVAILABLE. Connections wait until Start().
  absl::StatusOr<std::string> Listen(const std::string& address,
                                     mode_t unix_mode, Take take);
  void Start();
  // Stops listening and returns when no `take` runs or will run.
  void Close();

  // Connections that were handed on and are not closed.
  int64_t open() const;
  // Those closed at once.
  int64_t refused() const { return refused_; }
  // What an open connection has received, bytes; nullopt if it is none of ours,
  // or of a Unix socket, whose system does not count them. `peer` is as gRPC
  // names it: "ipv4:192.0.2.1:50051", "ipv6:%5B2001:db8::1%5D:50051".
  std::optional<int64_t> BytesReceived(const std::string& peer) const;

  static constexpr int64_t kSpareFiles = 128;

 private:
  struct Listener {
    int socket;
    Take take;
    std::optional<UnixListener> on_path;  // its own, if it has a file
  };
  // A socket that was handed on, as long as its number stands for it.
  struct Connection {
    int socket;
    ino_t inode;
  };
  void Run();
  void Accept(const Listener& listener);
  void AcceptWithoutFiles(const Listener& listener);
  bool Full(Instant now);
  // Called with the lock.
  void ForgetClosed() const;

  const int64_t limit_;
  std::vector<Listener> listeners_;
  int wake_ = -1;   // written to when the thread must end
  int spare_ = -1;  // given up where accept finds no file descriptor
  std::thread thread_;
  std::atomic<int64_t> refused_{0};
  Instant counted_{};
  mutable std::mutex mutex_;  // guards connections_
  // By peer; those of Unix sockets by inode.
  mutable std::map<std::string, Connection, std::less<>> connections_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_CONNECTION_ACCEPTOR_H_
