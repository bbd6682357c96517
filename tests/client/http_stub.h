// An HTTP server in the test's own process that answers what the test decides.
#ifndef ATTND_TESTS_CLIENT_HTTP_STUB_H_
#define ATTND_TESTS_CLIENT_HTTP_STUB_H_

#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace attnd::client {

// A complete answer with status 200.
std::string HttpOk(const std::string& body);

// Answers one connection after the other and closes each.
class HttpStub {
 public:
  // `answer` gets the number of the request, from 0. A silent stub reads
  // requests and never answers.
  explicit HttpStub(std::function<std::string(int)> answer,
                    bool silent = false);
  ~HttpStub();

  // "127.0.0.1:port".
  const std::string& address() const { return address_; }
  std::string last_request() const;

 private:
  void Serve();

  std::function<std::string(int)> answer_;
  bool silent_;
  int listener_ = -1;
  std::string address_;
  mutable std::mutex mutex_;
  std::string last_request_;
  std::thread thread_;
};

}  // namespace attnd::client

#endif  // ATTND_TESTS_CLIENT_HTTP_STUB_H_
