#include "tests/client/http_stub.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace attnd::client {

std::string HttpOk(const std::string& body) {
  return absl::StrCat("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n",
                      body);
}

HttpStub::HttpStub(std::function<std::string(int)> answer, bool silent)
    : answer_(std::move(answer)), silent_(silent) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof any;
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&any), length), 0);
  EXPECT_EQ(listen(listener_, 16), 0);
  getsockname(listener_, reinterpret_cast<sockaddr*>(&any), &length);
  address_ = absl::StrCat("127.0.0.1:", ntohs(any.sin_port));
  thread_ = std::thread([this] { Serve(); });
}

HttpStub::~HttpStub() {
  // Wakes accept().
  shutdown(listener_, SHUT_RDWR);
  thread_.join();
  close(listener_);
}

std::string HttpStub::last_request() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return last_request_;
}

void HttpStub::Serve() {
  for (int number = 0;; ++number) {
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) return;
    std::string request;
    char part[1024];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t got = recv(connection, part, sizeof part, 0);
      if (got <= 0) break;
      request.append(part, got);
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      last_request_ = request;
    }
    // A silent one waits until the client gives up.
    if (silent_) recv(connection, part, sizeof part, 0);
    const std::string answer = answer_(number);
    send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
    close(connection);
  }
}

}  // namespace attnd::client
