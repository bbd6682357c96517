#include "server/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/server/http.h"

namespace attnd::server {
namespace {

using ::attnd::testing::Http;
using ::attnd::testing::HttpConnect;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::unique_ptr<Admin> Listen(Admin::Pages pages) {
  auto admin = Admin::Listen("127.0.0.1:0", std::move(pages));
  EXPECT_TRUE(admin.ok()) << admin.status();
  return *std::move(admin);
}

TEST(Admin, AnswersItsPages) {
  const auto admin = Listen(
      {{"/livez", [] { return HttpReply{.body = "yes"}; }},
       {"/readyz", [] { return HttpReply{.code = 503, .body = "no"}; }},
       {"/broken", []() -> HttpReply { throw std::runtime_error("oops"); }}});
  EXPECT_THAT(Http(admin->address(), "GET /livez"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("\r\n\r\nyes")));
  EXPECT_THAT(Http(admin->address(), "GET /readyz"),
              StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(
      Http(admin->address(), "HEAD /livez"),
      AllOf(StartsWith("HTTP/1.1 200 "), Not(HasSubstr("\r\n\r\nyes"))));
  EXPECT_THAT(Http(admin->address(), "GET /nothing"),
              StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(Http(admin->address(), "POST /livez"),
              StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Http(admin->address(), "GET /broken"),
              StartsWith("HTTP/1.1 500 "));
}

// Connections that say nothing, or little, as the test goes on.
class Silent {
 public:
  Silent(const Admin& admin, size_t count, const std::string& text) {
    for (size_t i = 0; i < count; ++i) {
      sockets_.push_back(HttpConnect(admin.address()));
      EXPECT_EQ(send(sockets_.back(), text.data(), text.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(text.size()));
    }
  }
  ~Silent() {
    for (const int socket : sockets_) close(socket);
  }
  int oldest() const { return sockets_.front(); }

 private:
  std::vector<int> sockets_;
};

// Waits for the end of what a socket brings.
std::string ReadAll(int socket) {
  std::string text;
  char buffer[4096];
  ssize_t got;
  while ((got = read(socket, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

TEST(Admin, WhoSaysNothingKeepsNobodyWaiting) {
  const auto admin =
      Listen({{"/livez", [] { return HttpReply{.body = "yes"}; }}});
  for (const char* text : {"", "GET /livez HTTP/1.1\r\nX: "}) {
    for (const size_t count : {size_t{2}, 3 * Admin::kConnections}) {
      const Silent silent(*admin, count, text);
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < 10; ++i) {
        EXPECT_THAT(Http(admin->address(), "GET /livez"),
                    StartsWith("HTTP/1.1 200 "));
      }
      EXPECT_LT(std::chrono::steady_clock::now() - start, Admin::kPatience / 2);
    }
  }
}

TEST(Admin, OneTooManyClosesTheOldestThatSaidNothing) {
  const auto admin = Listen({});
  const Silent first(*admin, 1, "GET /");
  const Silent others(*admin, Admin::kConnections, "");
  EXPECT_EQ(ReadAll(first.oldest()), "");
  // The next in line is still served.
  EXPECT_THAT(Http(admin->address(), "GET /nothing"),
              StartsWith("HTTP/1.1 404 "));
}

TEST(Admin, WhoDoesNotReadKeepsNobodyWaiting) {
  const auto admin = Listen(
      {{"/long", [] { return HttpReply{.body = std::string(1 << 24, 'x')}; }},
       {"/livez", [] { return HttpReply{.body = "yes"}; }}});
  const Silent readers(*admin, 8, "GET /long HTTP/1.1\r\n\r\n");
  EXPECT_THAT(Http(admin->address(), "GET /livez"),
              StartsWith("HTTP/1.1 200 "));
  // Slow is not wrong.
  EXPECT_GT(ReadAll(readers.oldest()).size(), size_t{1} << 24);
}

TEST(Admin, ARequestHasAnEnd) {
  const auto admin = Listen({});
  const Silent endless(*admin, 1, std::string(Admin::kRequestBytes + 1, 'x'));
  EXPECT_THAT(ReadAll(endless.oldest()), StartsWith("HTTP/1.1 431 "));
  const Silent nonsense(*admin, 1, "\x16\x03\x01 nonsense\r\n\r\n");
  EXPECT_THAT(ReadAll(nonsense.oldest()), StartsWith("HTTP/1.1 400 "));
  const Silent query(*admin, 1, "GET /nothing?a=b HTTP/1.0\r\n\r\n");
  EXPECT_THAT(ReadAll(query.oldest()), StartsWith("HTTP/1.1 404 "));
}

// As who types it by hand.
TEST(Admin, LinesMayEndInLineFeedsAlone) {
  const auto admin =
      Listen({{"/livez", [] { return HttpReply{.body = "yes"}; }}});
  for (const char* request :
       {"GET /livez HTTP/1.1\n\n", "GET /livez HTTP/1.1\nHost: a\n\n",
        "GET /livez HTTP/1.1\r\nHost: a\n\r\n",
        "GET /livez HTTP/1.1\nHost: a\r\n\n"}) {
    const Silent one(*admin, 1, request);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(ReadAll(one.oldest()),
                AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("yes")))
        << request;
    EXPECT_LT(std::chrono::steady_clock::now() - start, Admin::kPatience / 2);
  }
  const Silent nonsense(*admin, 1, "nonsense\n\n");
  EXPECT_THAT(ReadAll(nonsense.oldest()), StartsWith("HTTP/1.1 400 "));
}

TEST(Admin, ARequestHasOneDeadlineHoweverItDrips) {
  const auto admin =
      Admin::Listen("127.0.0.1:0", {}, std::chrono::milliseconds(300));
  ASSERT_TRUE(admin.ok()) << admin.status();
  const Silent dripping(**admin, 1, "G");
  const auto start = std::chrono::steady_clock::now();
  pollfd readable = {.fd = dripping.oldest(), .events = POLLIN, .revents = 0};
  while (poll(&readable, 1, 20) == 0 &&
         std::chrono::steady_clock::now() - start < Admin::kPatience) {
    send(dripping.oldest(), "E", 1, MSG_NOSIGNAL);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, Admin::kPatience);
}

TEST(Admin, ATakenPortIsAnError) {
  const auto admin = Listen({});
  const auto second = Admin::Listen(admin->address(), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(admin->address()));
}

}  // namespace
}  // namespace attnd::server
