#include "server/admin.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace attnd::server {
namespace {

constexpr char kEndOfHead[] = "\r\n\r\n";

// Lines may end in LF alone, as people type them (RFC 9112, 2.2).
bool HasEndOfHead(absl::string_view request) {
  return absl::StrContains(request, "\n\r\n") ||
         absl::StrContains(request, "\n\n");
}

absl::string_view TextOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
  }
  return "Internal Server Error";
}

std::string ToText(const HttpReply& reply, bool with_body) {
  return absl::StrCat(
      "HTTP/1.1 ", reply.code, " ", TextOf(reply.code),
      "\r\nContent-Type: ", reply.content_type,
      "\r\nContent-Length: ", reply.body.size(),
      "\r\nCache-Control: no-store\r\nConnection: close", kEndOfHead,
      with_body ? absl::string_view(reply.body) : absl::string_view());
}

HttpReply PageAt(const Admin::Pages& pages, absl::string_view method,
                 const std::string& path) {
  if (method != "GET" && method != "HEAD") {
    return {.code = 405, .body = "only GET\n"};
  }
  const auto page = pages.find(path);
  if (page == pages.end()) return {.code = 404, .body = "no such page\n"};
  try {
    return page->second();
  } catch (const std::exception& error) {
    return {.code = 500, .body = absl::StrCat(error.what(), "\n")};
  }
}

// The call may be made again later; false if it failed for good.
bool WouldBlock() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int MillisecondsUntil(Instant until, Instant now) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 20));
}

}  // namespace

// The acceptor's own limit is out of reach: it would close the newest.
Admin::Admin(Pages pages, Instant::duration patience)
    : pages_(std::move(pages)),
      patience_(patience),
      acceptor_(std::numeric_limits<int64_t>::max()),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

absl::StatusOr<std::unique_ptr<Admin>> Admin::Listen(
    const std::string& address, Pages pages, Instant::duration patience) {
  std::unique_ptr<Admin> admin(new Admin(std::move(pages), patience));
  auto real =
      admin->acceptor_.Listen(address, 0, [a = admin.get()](int socket) {
        {
          std::lock_guard lock(a->mutex_);
          a->accepted_.push_back(socket);
        }
        eventfd_write(a->wake_, 1);
      });
  if (!real.ok()) {
    return absl::UnavailableError(
        absl::StrCat("admin.address ", real.status().message()));
  }
  admin->address_ = *std::move(real);
  admin->thread_ = std::thread([a = admin.get()] {
    pthread_setname_np(pthread_self(), "attnd-admin");
    a->Run();
  });
  admin->acceptor_.Start();
  return admin;
}

Admin::~Admin() {
  acceptor_.Close();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_, 1);
  if (thread_.joinable()) thread_.join();
  for (const int socket : accepted_) close(socket);
  while (!connections_.empty()) Close(connections_.begin());
  close(wake_);
}

void Admin::Close(std::list<Connection>::iterator connection) {
  close(connection->socket);
  connections_.erase(connection);
}

void Admin::TakeNew() {
  std::vector<int> accepted;
  {
    std::lock_guard lock(mutex_);
    accepted.swap(accepted_);
  }
  for (const int socket : accepted) {
    if (connections_.size() == kConnections) {
      const auto silent =
          std::find_if(connections_.begin(), connections_.end(),
                       [](const Connection& c) { return c.out.empty(); });
      Close(silent == connections_.end() ? connections_.begin() : silent);
    }
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
    connections_.push_back(
        {.socket = socket,
         .until = std::chrono::steady_clock::now() + patience_});
    // Most requests are there with their connection: they cannot be pushed out
    // by those that come after.
    if (!Read(connections_.back())) Close(std::prev(connections_.end()));
  }
}

void Admin::Run() {
  std::vector<pollfd> waiting;
  while (true) {
    waiting.assign(1, {.fd = wake_, .events = POLLIN, .revents = 0});
    for (const Connection& c : connections_) {
      const bool writes = c.sent < c.out.size();
      waiting.push_back(
          {.fd = c.socket,
           .events = static_cast<int16_t>(writes ? POLLOUT : POLLIN),
           .revents = 0});
    }
    // The oldest is the first to be late.
    poll(waiting.data(), waiting.size(),
         connections_.empty()
             ? -1
             : MillisecondsUntil(connections_.front().until,
                                 std::chrono::steady_clock::now()));
    auto each = connections_.begin();
    for (size_t i = 1; i < waiting.size(); ++i) {
      const auto now = each++;
      if (waiting[i].revents == 0) continue;
      const bool open = waiting[i].events == POLLOUT ? Write(*now) : Read(*now);
      if (!open) Close(now);
    }
    const Instant now = std::chrono::steady_clock::now();
    while (!connections_.empty() && connections_.front().until <= now) {
      Close(connections_.begin());
    }
    eventfd_t count;
    if (eventfd_read(wake_, &count) != 0) continue;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    TakeNew();
  }
}

bool Admin::Read(Connection& connection) const {
  char buffer[4096];
  const ssize_t got = recv(connection.socket, buffer, sizeof(buffer), 0);
  if (got < 0) return WouldBlock();
  if (got == 0) return false;
  // After its answer, what still comes only delays the end.
  if (!connection.out.empty()) return true;
  std::string& in = connection.in;
  in.append(buffer, static_cast<size_t>(got));
  if (HasEndOfHead(in)) {
    connection.out = Answer(in);
  } else if (in.size() > kRequestBytes) {
    connection.out =
        ToText({.code = 431, .body = "the request is too long\n"}, true);
  } else {
    return true;
  }
  in = std::string();
  return Write(connection);
}

bool Admin::Write(Connection& connection) const {
  const std::string& out = connection.out;
  const ssize_t sent = send(connection.socket, out.data() + connection.sent,
                            out.size() - connection.sent, MSG_NOSIGNAL);
  if (sent < 0) return WouldBlock();
  connection.sent += static_cast<size_t>(sent);
  // The peer closes when it has read all; to close first would be a reset where
  // it sent more than was read, which may overtake the answer.
  if (connection.sent == out.size()) shutdown(connection.socket, SHUT_WR);
  return true;
}

std::string Admin::Answer(absl::string_view request) const {
  // "GET /livez?query HTTP/1.1".
  const std::vector<absl::string_view> parts = absl::StrSplit(
      absl::StripSuffix(request.substr(0, request.find('\n')), "\r"), ' ');
  if (parts.size() != 3 || !absl::StartsWith(parts[2], "HTTP/1.")) {
    return ToText({.code = 400, .body = "no HTTP/1.1 request\n"}, true);
  }
  const std::string path(parts[1].substr(0, parts[1].find('?')));
  return ToText(PageAt(pages_, parts[0], path), parts[0] != "HEAD");
}

}  // namespace attnd::server
