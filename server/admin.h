// The HTTP port for machines that watch: /metrics, /livez, /readyz, /version.
#ifndef ATTND_SERVER_ADMIN_H_
#define ATTND_SERVER_ADMIN_H_

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/connection_acceptor.h"
#include "server/time_source.h"

namespace attnd::server {

struct HttpReply {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// Answers GET and HEAD on fixed paths, everything else with 404 or 405, one
// request a connection.
//
// Nobody waits for anybody else: one thread serves all connections as they get
// ready, and there are kConnections of them at most. One more closes the oldest
// of those that have not sent their request yet, else the oldest. A request of
// at most kRequestBytes and its answer have `patience` together, however they
// trickle.
class Admin {
 public:
  // Path -> answer; called on the one thread, so not to wait.
  using Pages = std::map<std::string, std::function<HttpReply()>>;

  static constexpr size_t kConnections = 64;
  static constexpr size_t kRequestBytes = 8 << 10;
  static constexpr std::chrono::seconds kPatience{10};

  // Listens on "host:port"; port 0 picks a free one. UNAVAILABLE when the port
  // is taken.
  static absl::StatusOr<std::unique_ptr<Admin>> Listen(
      const std::string& address, Pages pages,
      Instant::duration patience = kPatience);
  // Ends the connections.
  ~Admin();

  // "host:port" with the real port.
  const std::string& address() const { return address_; }

 private:
  // Oldest first.
  struct Connection {
    int socket;
    Instant until;
    std::string in = {};
    std::string out = {};  // from the moment the request is complete
    size_t sent = 0;
  };

  Admin(Pages pages, Instant::duration patience);
  void Run();
  void TakeNew();
  void Close(std::list<Connection>::iterator connection);
  // False when done with the connection.
  bool Read(Connection& connection) const;
  bool Write(Connection& connection) const;
  std::string Answer(absl::string_view request) const;

  const Pages pages_;
  const Instant::duration patience_;
  std::string address_;
  ConnectionAcceptor acceptor_;
  std::list<Connection> connections_;  // of the thread
  const int wake_;                     // written to for what is new
  std::mutex mutex_;                   // guards the next
  std::vector<int> accepted_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace attnd::server

#endif  // ATTND_SERVER_ADMIN_H_
