// The smallest HTTP client.
#ifndef ATTND_TESTS_SERVER_HTTP_H_
#define ATTND_TESTS_SERVER_HTTP_H_

#include <string>

namespace attnd::testing {

// A socket connected to "host:port" (a numeric IPv4 host); -1 if it cannot.
int HttpConnect(const std::string& address);

// Sends `request` ("GET /livez") there and returns all that comes back, headers
// included; "" when it cannot connect.
std::string Http(const std::string& address, const std::string& request);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_SERVER_HTTP_H_
