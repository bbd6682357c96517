// A port for a server that comes and goes.
#ifndef ATTND_TESTS_INTEGRATION_RESERVED_PORT_H_
#define ATTND_TESTS_INTEGRATION_RESERVED_PORT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace attnd::testing {

// A port that nobody else gets while this lives: bound, but not listening,
// which leaves it to the server that will.
class ReservedPort {
 public:
  ReservedPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    sockaddr_in address = {.sin_family = AF_INET,
                           .sin_port = 0,
                           .sin_addr = {htonl(INADDR_LOOPBACK)},
                           .sin_zero = {}};
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (bind(socket_, generic, size) != 0) ADD_FAILURE() << "cannot bind";
    getsockname(socket_, generic, &size);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~ReservedPort() { close(socket_); }

  const std::string& address() const { return address_; }

 private:
  const int socket_;
  std::string address_;
};

}  // namespace attnd::testing

#endif  // ATTND_TESTS_INTEGRATION_RESERVED_PORT_H_
