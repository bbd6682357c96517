// attnctl against an attnd that wants to know who calls: certificates of both
// sides, a token, tenants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "client/load/workload.h"
#include "tests/client/attnctl_process.h"
#include "tests/client/attnd_process.h"
#include "tests/client/test_certificates.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AttnctlSecurity : public ::testing::Test {
 protected:
  AttnctlSecurity() {
    Write("ca.pem", kTestAuthority);
    Write("server.pem", kTestServerCertificate);
    Write("server.key", kTestServerKey);
    Write("client.pem", kTestClientCertificate);
    Write("client.key", kTestClientKey);
    Write("token", "0123456789abcdef\n");
  }

  std::string Write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(WriteFile(folder_ + name, text).ok());
    return folder_ + name;
  }

  // Wants client certificates; `more` is further configuration.
  void Start(const std::string& more) {
    server_.emplace(
        Write("attnd.yaml",
              absl::StrCat("listeners: [{address: '127.0.0.1:0', tls: {",
                           "certificate_file: ", folder_, "server.pem, ",
                           "key_file: ", folder_, "server.key, ",
                           "client_ca_file: ", folder_, "ca.pem}}]\n",
                           "admin: {address: '127.0.0.1:0'}\n", more)));
  }

  ProcessResult Run(std::vector<std::string> arguments,
                    const std::vector<std::string>& more) {
    arguments.insert(arguments.end(), {"--target", server_->target()});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunAttnctl(arguments);
  }
  // 20 small calls.
  ProcessResult Load(const std::vector<std::string>& more) {
    return Run({"load", "-r", "20", "-w", "0s", "--heads", "1", "--queries",
                "8", "--dim", "8", "--metrics",
                absl::StrCat("http://", server_->admin(), "/metrics")},
               more);
  }
  ProcessResult Attend(const std::vector<std::string>& more) {
    const auto requests = MakeRequests({.queries = 8, .keys = 8});
    return Run({"attend", "--replay",
                Write("request.pb", requests.value()[0].SerializeAsString()),
                "--out", folder_ + "answer"},
               more);
  }

  std::vector<std::string> Authority() const {
    return {"--tls-ca", folder_ + "ca.pem", "--tls-name", "server.attnd.test"};
  }
  std::vector<std::string> Known(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = Authority();
    arguments.insert(arguments.end(), {"--tls-cert", folder_ + "client.pem",
                                       "--tls-key", folder_ + "client.key"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  const std::string folder_ = FreshFolder();
  std::optional<AttndProcess> server_;
};

TEST_F(AttnctlSecurity, ACertificateIsServedUnderItsTenant) {
  Start("tenants: {tenants: [{name: client.attnd.test}, {name: other}]}\n");
  for (const bool stream : {false, true}) {
    std::vector<std::string> arguments =
        Known({"--verify", "1", "--tenant", "other"});
    if (stream) arguments.push_back("--stream");
    const ProcessResult result = Load(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out,
                AllOf(HasSubstr("verified     20 answers, 0 wrong"),
                      HasSubstr("by tenant    client.attnd.test: offered "),
                      // The certificate counts, not what the caller says.
                      Not(HasSubstr("by tenant    other"))));
  }
  const ProcessResult attend = Attend(Known());
  EXPECT_EQ(attend.exit_code, 0) << attend.err;
}

TEST_F(AttnctlSecurity, NoClientCertificateIsNoRunAndSaysWhatMayBeMissing) {
  Start("");
  const std::vector<std::string> strangers[] = {Authority(), {}};
  for (std::vector<std::string> stranger : strangers) {
    stranger.insert(stranger.end(), {"--timeout", "2s"});
    const ProcessResult load = Load(stranger);
    EXPECT_EQ(load.exit_code, 3) << load.out;
    EXPECT_EQ(load.out, "");
    EXPECT_THAT(load.err,
                AllOf(HasSubstr("was not ready within 2s: "),
                      HasSubstr(server_->target()), HasSubstr("--tls-cert")));
    const ProcessResult attend = Attend(stranger);
    EXPECT_EQ(attend.exit_code, 2) << attend.out;
    EXPECT_THAT(attend.err, HasSubstr("--tls-cert"));
  }
}

TEST_F(AttnctlSecurity, TheTokenIsSentWithEveryCall) {
  Start(absl::StrCat("security: {bearer_token_file: ", folder_, "token}\n"));
  const std::vector<std::string> token = {
      "--metadata", "authorization=Bearer 0123456789abcdef"};
  for (const bool stream : {false, true}) {
    std::vector<std::string> good = Known(token);
    std::vector<std::string> none = Known();
    if (stream) {
      good.push_back("--stream");
      none.push_back("--stream");
    }
    const ProcessResult result = Load(good);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_THAT(result.out, Not(HasSubstr("0123456789abcdef")));
    const ProcessResult refused = Load(none);
    EXPECT_EQ(refused.exit_code, 3) << refused.out;
    EXPECT_THAT(refused.out,
                AllOf(HasSubstr("20 x UNAUTHENTICATED: "),
                      HasSubstr("INVALID      none of 20 calls succeeded")));
  }
  EXPECT_EQ(Attend(Known(token)).exit_code, 0);
  const ProcessResult refused = Attend(Known());
  EXPECT_EQ(refused.exit_code, 1) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("authorization=Bearer"));
}

TEST_F(AttnctlSecurity, TenantsAndPrioritiesOfAMixAreReportedApart) {
  Start("tenants: {tenants: [{name: a, weight: 3}, {name: b}]}\n");
  const ProcessResult result = Load(
      Known({"--mix", "tenant=a priority=5", "--mix", "tenant=b priority=-5",
             absl::StrCat("--json=", folder_, "run.json"), "--html",
             folder_ + "run.html"}));
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const char* tenant : {"a", "b"}) {
    EXPECT_THAT(
        result.out,
        AllOf(HasSubstr(absl::StrCat(" tenant ", tenant, ": ")),
              HasSubstr(absl::StrCat("by tenant    ", tenant, ": offered "))));
    EXPECT_THAT(ReadFile(folder_ + "run.json").value_or(""),
                HasSubstr(absl::StrCat("attnd_offered_worker_seconds_total{"
                                       "tenant_class=\\\"",
                                       tenant, "\\\"}")));
    EXPECT_THAT(ReadFile(folder_ + "run.html").value_or(""),
                HasSubstr(absl::StrCat("offered by tenant ", tenant)));
  }
}

}  // namespace
}  // namespace attnd::client
