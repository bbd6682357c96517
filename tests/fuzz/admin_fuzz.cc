// Any bytes sent to the admin port: it stays up, and answers a good request
// afterwards.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/admin.h"

namespace {

using attnd::server::Admin;
using attnd::server::HttpReply;

// What the port answers until it closes or says nothing for a moment.
std::string Exchange(int port, const char* data, size_t size) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience = {.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) ==
      0) {
    (void)!send(fd, data, size, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    char buffer[4096];
    for (ssize_t got; (got = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
      answer.append(buffer, static_cast<size_t>(got));
    }
  }
  close(fd);
  return answer;
}

int ThePort() {
  static const auto admin = *Admin::Listen(
      "127.0.0.1:0", {{"/livez", [] { return HttpReply{.body = "alive\n"}; }}});
  static const int port =
      std::stoi(admin->address().substr(admin->address().rfind(':') + 1));
  return port;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Exchange(ThePort(), reinterpret_cast<const char*>(data), size);
  const std::string good = "GET /livez HTTP/1.0\r\n\r\n";
  const std::string answer = Exchange(ThePort(), good.data(), good.size());
  if (answer.find("alive") == std::string::npos) std::abort();
  return 0;
}
