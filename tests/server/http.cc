#include "tests/server/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace attnd::testing {

int HttpConnect(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port =
      htons(static_cast<uint16_t>(std::stoi(address.substr(colon + 1))));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(client, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) {
    return client;
  }
  close(client);
  return -1;
}

std::string Http(const std::string& address, const std::string& request) {
  const int client = HttpConnect(address);
  std::string reply;
  if (client >= 0) {
    const std::string text =
        request + " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n";
    (void)!write(client, text.data(), text.size());
    char buffer[65536];
    ssize_t got;
    while ((got = read(client, buffer, sizeof(buffer))) > 0) {
      reply.append(buffer, static_cast<size_t>(got));
    }
  }
  if (client >= 0) close(client);
  return reply;
}

}  // namespace attnd::testing
