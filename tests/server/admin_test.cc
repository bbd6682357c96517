#include "server/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/server/http.h"

namespace attnd::server {
namespace {

using ::attnd::testing::Http;
using ::testing::AllOf;
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

TEST(Admin, ATakenPortIsAnError) {
  const auto admin = Listen({});
  const auto second = Admin::Listen(admin->address(), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(admin->address()));
}

}  // namespace
}  // namespace attnd::server
