#include "server/connection_acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
// Not netinet/tcp.h, whose tcp_info ends before the bytes received.
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace attnd::server {
namespace {

// What a peer that does not take it may leave unacknowledged; after that its
// connection is closed.
constexpr int kUserTimeoutMs = 20'000;

// How often the open connections are counted again while the limit is reached.
constexpr std::chrono::milliseconds kCountPeriod(20);

int64_t FileLimit() {
  rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  return static_cast<int64_t>(
      std::min<rlim_t>(files.rlim_cur, int64_t{1} << 40));
}

absl::Status Failure(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat(address, ": cannot listen: ", why));
}

std::string PortFault(int error) {
  return absl::StrCat(std::strerror(error),
                      error == EADDRINUSE ? " (is the port taken?)" : "");
}

// Listens; a negative errno if it cannot.
int ListeningSocket(const sockaddr* address, socklen_t size) {
  const int family = address->sa_family;
  const int socket =
      ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return -errno;
  const int yes = 1, no = 0;
  // Not SO_REUSEPORT: two servers would share a port without a word.
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs,
             sizeof(kUserTimeoutMs));
  if (family == AF_INET6) {
    setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  }
  if (bind(socket, address, size) == 0 && listen(socket, SOMAXCONN) == 0) {
    return socket;
  }
  const int error = errno;
  close(socket);
  return -error;
}

int ListenOnPort(const std::string& host, const std::string& port) {
  const bool any = host == "0.0.0.0" || host == "[::]";
  const std::string name(absl::StripSuffix(absl::StripPrefix(host, "["), "]"));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  int result = -EADDRNOTAVAIL;
  // Every address: an IPv6 socket that serves both, where there is IPv6.
  for (const char* each : {any ? "::" : name.c_str(), name.c_str()}) {
    addrinfo* found = nullptr;
    if (getaddrinfo(each, port.c_str(), &hints, &found) != 0) continue;
    result = ListeningSocket(found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    if (result >= 0 || result == -EADDRINUSE) break;
  }
  return result;
}

int PortOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

ino_t InodeOf(int socket) {
  struct stat file;
  return fstat(socket, &file) == 0 ? file.st_ino : 0;
}

// As gRPC names it; empty for other families.
std::string NameOf(const sockaddr_storage& peer) {
  char text[INET6_ADDRSTRLEN] = {};
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  if (peer.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  return absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(v6.sin6_port));
}

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(int64_t limit)
    : limit_(std::max<int64_t>(1, std::min(limit, FileLimit() - kSpareFiles))),
      wake_(eventfd(0, EFD_CLOEXEC)),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

absl::StatusOr<std::string> ConnectionAcceptor::Listen(
    const std::string& address, mode_t unix_mode, Take take) {
  if (absl::StartsWith(address, "unix:")) {
    const auto listener = UnixListener::Listen(address.substr(5), unix_mode);
    if (!listener.ok()) return Failure(address, listener.status().message());
    listeners_.push_back({listener->socket(), std::move(take), *listener});
    return address;
  }
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon);
  const int socket = ListenOnPort(host, address.substr(colon + 1));
  if (socket < 0) return Failure(address, PortFault(-socket));
  listeners_.push_back({socket, std::move(take), std::nullopt});
  return absl::StrCat(host, ":", PortOf(socket));
}

void ConnectionAcceptor::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "attnd-accept");
    Run();
  });
}

void ConnectionAcceptor::Close() {
  if (wake_ < 0) return;
  eventfd_write(wake_, 1);
  if (thread_.joinable()) thread_.join();
  for (const Listener& listener : listeners_) {
    if (listener.on_path) {
      listener.on_path->Close();
    } else {
      close(listener.socket);
    }
  }
  listeners_.clear();
  close(std::exchange(wake_, -1));
  close(std::exchange(spare_, -1));
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> waiting = {{wake_, POLLIN, 0}};
  for (const Listener& listener : listeners_) {
    waiting.push_back({listener.socket, POLLIN, 0});
  }
  while (true) {
    poll(waiting.data(), waiting.size(), -1);
    if (waiting[0].revents != 0) return;
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (waiting[i + 1].revents != 0) Accept(listeners_[i]);
    }
  }
}

void ConnectionAcceptor::Accept(const Listener& listener) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  const int socket =
      accept4(listener.socket, reinterpret_cast<sockaddr*>(&peer), &size,
              SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (socket < 0) {
    // Others mean that this connection is gone already.
    if (errno == EMFILE || errno == ENFILE) AcceptWithoutFiles(listener);
    return;
  }
  if (Full(std::chrono::steady_clock::now())) {
    ++refused_;
    close(socket);
    return;
  }
  {
    const ino_t inode = InodeOf(socket);
    std::string name = NameOf(peer);
    if (name.empty()) name = absl::StrCat("unix:", inode);
    std::lock_guard lock(mutex_);
    // One of the same name is closed: its number is free again.
    connections_[name] = {socket, inode};
  }
  listener.take(socket);
}

// Otherwise it would wait, and poll return at once for ever.
void ConnectionAcceptor::AcceptWithoutFiles(const Listener& listener) {
  close(spare_);
  const int socket = accept4(listener.socket, nullptr, nullptr, SOCK_CLOEXEC);
  if (socket >= 0) {
    ++refused_;
    close(socket);
  }
  spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

bool ConnectionAcceptor::Full(Instant now) {
  std::lock_guard lock(mutex_);
  const auto full = [&] {
    return static_cast<int64_t>(connections_.size()) >= limit_;
  };
  if (full() && now - counted_ > kCountPeriod) {
    ForgetClosed();
    counted_ = now;
  }
  return full();
}

// gRPC closes the sockets and tells nobody. A number that stands for another
// file by now has been closed.
void ConnectionAcceptor::ForgetClosed() const {
  std::erase_if(connections_, [](const auto& each) {
    return InodeOf(each.second.socket) != each.second.inode;
  });
}

int64_t ConnectionAcceptor::open() const {
  std::lock_guard lock(mutex_);
  ForgetClosed();
  return static_cast<int64_t>(connections_.size());
}

std::optional<int64_t> ConnectionAcceptor::BytesReceived(
    const std::string& peer) const {
  std::lock_guard lock(mutex_);
  const auto it = connections_.find(peer);
  if (it == connections_.end()) return std::nullopt;
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (InodeOf(it->second.socket) != it->second.inode ||
      getsockopt(it->second.socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return std::nullopt;
  }
  return static_cast<int64_t>(info.tcpi_bytes_received);
}

}  // namespace attnd::server
