// Accepts connections and hands them on: to gRPC, which in version 1.51 can
// neither bound their number nor listen on after it once ran out of files.
#ifndef ATTND_SERVER_CONNECTION_ACCEPTOR_H_
#define ATTND_SERVER_CONNECTION_ACCEPTOR_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
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

  // What gRPC keeps of calls that are taken back as soon as they are made is
  // in nobody's count, and while such connections keep its threads no code of
  // ours runs on them. So, when `resident` bytes are more than `most` and
  // become more, connections that send and get nothing back are cut off.
  struct Guard {
    // Of the process; null = nobody looks.
    std::function<int64_t()> resident = {};
    int64_t most = 0;
    // Learns who was cut off, for whatever reason; may be null.
    std::function<void(const std::string& peer)> told = {};
  };

  // At most `limit` connections, and no more than the process's limit of open
  // files allows when kSpareFiles are kept for everything else.
  ConnectionAcceptor(int64_t limit, Guard guard);
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

  // Ends a connection, named as above, and keeps its host out for kKeptOut:
  // otherwise it comes back at once.
  void CutOff(const std::string& peer);
  // Connections that were.
  int64_t cut_off() const { return cut_off_; }

  static constexpr int64_t kSpareFiles = 128;
  static constexpr std::chrono::seconds kKeptOut{1};
  // Between two looks at the memory; while there is too much of it.
  static constexpr std::chrono::milliseconds kLook{100}, kLookAgain{20};

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
    bool cut_off = false;
    int64_t received = 0, sent = 0;  // when memory was looked at
  };
  void Run();
  void Accept(const Listener& listener);
  void AcceptWithoutFiles(const Listener& listener);
  bool Full(Instant now);
  bool KeptOut(const std::string& peer, Instant now);
  void LookAtMemory(Instant now);
  // Called with the lock.
  void ForgetClosed() const;
  // Whether it was not yet; `guard_` is to be told without the lock.
  bool CutOff(const std::string& peer, Connection& connection, Instant now);

  const int64_t limit_;
  const Guard guard_;
  Instant next_look_{};
  int64_t last_resident_ = 0;
  bool scarce_ = false;  // at the last look
  std::vector<Listener> listeners_;
  int wake_ = -1;   // written to when the thread must end
  int spare_ = -1;  // given up where accept finds no file descriptor
  std::thread thread_;
  std::atomic<int64_t> refused_{0}, cut_off_{0};
  Instant counted_{};
  mutable std::mutex mutex_;  // guards the two below
  // By peer; those of Unix sockets by inode.
  mutable std::map<std::string, Connection, std::less<>> connections_;
  std::map<std::string, Instant, std::less<>> kept_out_;  // hosts, until when
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_CONNECTION_ACCEPTOR_H_
