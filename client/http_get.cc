#include "client/http_get.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace attnd::client {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;

struct Address {
  std::string host;
  std::string port = "80";
  std::string path = "/";
};

absl::StatusOr<Address> ParseUrl(const std::string& url) {
  absl::string_view rest = url;
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("'", url, "', expected http://HOST:PORT/PATH"));
  if (!absl::ConsumePrefix(&rest, "http://")) return wrong;
  Address address;
  const size_t slash = rest.find('/');
  if (slash != absl::string_view::npos) {
    address.path = std::string(rest.substr(slash));
  }
  absl::string_view host = rest.substr(0, slash);
  const size_t bracket = host.find(']');
  const size_t colon =
      host.find(':', bracket == absl::string_view::npos ? 0 : bracket);
  if (colon != absl::string_view::npos) {
    address.port = std::string(host.substr(colon + 1));
    host = host.substr(0, colon);
  }
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  address.host = std::string(host);
  if (address.host.empty() || address.port.empty()) return wrong;
  // A line end in a request would begin another header.
  if (url.find_first_of("\r\n ") != std::string::npos) return wrong;
  return address;
}

// A socket that waits no longer than until a moment.
class Connection {
 public:
  explicit Connection(absl::Duration timeout)
      : until_(std::chrono::steady_clock::now() +
               absl::ToChronoNanoseconds(timeout)) {}
  ~Connection() {
    if (socket_ >= 0) close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::Status Open(const Address& address) {
    addrinfo hints = {};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int failed =
        getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
    if (failed != 0) {
      return absl::UnavailableError(
          absl::StrCat(address.host, ": ", gai_strerror(failed)));
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(
        found, freeaddrinfo);
    absl::Status status = absl::UnavailableError("no address");
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
      status = ConnectTo(*at);
      if (status.ok()) break;
    }
    return status;
  }

  absl::Status Send(absl::string_view bytes) {
    while (!bytes.empty()) {
      if (absl::Status status = Wait(POLLOUT); !status.ok()) return status;
      const ssize_t sent =
          send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return Failed("send");
      bytes.remove_prefix(sent);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReceiveAll() {
    std::string all;
    char part[16384];
    while (all.size() <= kMaxBytes) {
      if (absl::Status status = Wait(POLLIN); !status.ok()) return status;
      const ssize_t got = recv(socket_, part, sizeof part, 0);
      if (got < 0) return Failed("receive");
      if (got == 0) return all;
      all.append(part, got);
    }
    return absl::UnavailableError("more than 16 MiB");
  }

 private:
  static absl::Status Failed(const char* what) {
    return absl::UnavailableError(
        absl::StrCat(what, ": ", std::strerror(errno)));
  }

  absl::Status ConnectTo(const addrinfo& address) {
    if (socket_ >= 0) close(socket_);
    socket_ = socket(address.ai_family,
                     address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                     address.ai_protocol);
    if (socket_ < 0) return Failed("socket");
    if (connect(socket_, address.ai_addr, address.ai_addrlen) == 0) {
      return absl::OkStatus();
    }
    if (errno != EINPROGRESS) return Failed("connect");
    if (absl::Status status = Wait(POLLOUT); !status.ok()) return status;
    socklen_t length = sizeof errno;
    getsockopt(socket_, SOL_SOCKET, SO_ERROR, &errno, &length);
    return errno == 0 ? absl::OkStatus() : Failed("connect");
  }

  absl::Status Wait(short events) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until_ - std::chrono::steady_clock::now());
    pollfd entry = {.fd = socket_, .events = events, .revents = 0};
    const int ready =
        poll(&entry, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready < 0 && errno != EINTR) return Failed("poll");
    return ready == 0 ? absl::DeadlineExceededError("no answer in time")
                      : absl::OkStatus();
  }

  std::chrono::steady_clock::time_point until_;
  int socket_ = -1;
};

}  // namespace

absl::StatusOr<std::string> HttpGet(const std::string& url,
                                    absl::Duration timeout) {
  const absl::StatusOr<Address> address = ParseUrl(url);
  if (!address.ok()) return address.status();
  const auto about = [&](const absl::Status& status) {
    return absl::Status(status.code(),
                        absl::StrCat(url, ": ", status.message()));
  };
  Connection connection(timeout);
  absl::Status status = connection.Open(*address);
  // 1.0: the body comes in one piece and ends with the connection.
  if (status.ok()) {
    status = connection.Send(absl::StrCat(
        "GET ", address->path, " HTTP/1.0\r\nHost: ", address->host, ":",
        address->port, "\r\nAccept: text/plain\r\n\r\n"));
  }
  if (!status.ok()) return about(status);
  const absl::StatusOr<std::string> answer = connection.ReceiveAll();
  if (!answer.ok()) return about(answer.status());
  const size_t body = answer->find("\r\n\r\n");
  const std::vector<std::string> line =
      absl::StrSplit(answer->substr(0, answer->find('\r')), ' ');
  if (body == std::string::npos || line.size() < 2 || line[1] != "200") {
    return absl::FailedPreconditionError(
        absl::StrCat(url, ": answered '", absl::StrJoin(line, " "), "'"));
  }
  return answer->substr(body + 4);
}

}  // namespace attnd::client
