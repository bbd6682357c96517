// TLS, client certificates, tokens, sockets, and the plain health port.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/client/test_certificates.h"
#include "tests/integration/service_test.h"
#include "tests/server/requests.h"
#include "tests/server/tls_kinds.h"

namespace attnd::testing {
namespace {

namespace fs = std::filesystem;
using client::kTestAuthority;
using client::kTestClientCertificate;
using client::kTestClientKey;
using client::kTestServerCertificate;
using client::kTestServerKey;
using ::testing::HasSubstr;

class SecurityTest : public ServiceTest {
 protected:
  SecurityTest()
      : folder_(fs::path(::testing::TempDir()) /
                absl::StrCat("attnd_", ::testing::UnitTest::GetInstance()
                                           ->current_test_info()
                                           ->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Write("cert.pem", kTestServerCertificate);
    Write("key.pem", kTestServerKey);
    Write("ca.pem", kTestAuthority);
  }
  ~SecurityTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  // At once, as a rename does.
  void Replace(const std::string& name, const std::string& text) {
    Write(name + ".new", text);
    fs::rename(folder_ / (name + ".new"), folder_ / name);
  }
  std::string Path(const std::string& name) const { return folder_ / name; }
  // `tls` may hold further keys of it.
  std::string TlsListener(const std::string& tls) const {
    return absl::StrCat("listeners: [{address: '127.0.0.1:0', tls: {",
                        "certificate_file: ", Path("cert.pem"),
                        ", key_file: ", Path("key.pem"), tls, "}}]\n");
  }
  TestClient Stranger() const {
    return {server_->addresses()[0], kTestAuthority, "", ""};
  }
  TestClient Known() const {
    return {server_->addresses()[0], kTestAuthority, kTestClientCertificate,
            kTestClientKey};
  }

  const fs::path folder_;
  const v1::AttendRequest small_ = MakeRequest({});
};

TEST_F(SecurityTest, TlsServesWhoTrustsTheAuthority) {
  Start(TlsListener(""));
  EXPECT_TRUE(Stranger().Attend(small_).ok());
  EXPECT_EQ(client_->Attend(small_).code, kUnavailable) << "plain text";
}

TEST_F(SecurityTest, MutualTlsWantsACertificateOfTheAuthority) {
  Start(TlsListener(", client_ca_file: " + Path("ca.pem")));
  EXPECT_EQ(Stranger().Attend(small_).code, kUnavailable);
  const auto result = Known().Attend(small_);
  EXPECT_TRUE(result.ok()) << result.message;
}

TEST_F(SecurityTest, MethodsAreForListedIdentities) {
  Start(TlsListener(", client_ca_file: " + Path("ca.pem")) +
        "security: {methods: [{method: Attend, identities: "
        "[client.attnd.test]}, {method: Estimate, identities: [other]}]}\n");
  TestClient known = Known();
  EXPECT_TRUE(known.Attend(small_).ok());
  v1::AttendRequest shapes = small_;
  const auto refused = known.Estimate(shapes);
  EXPECT_EQ(refused.code, kPermissionDenied);
  EXPECT_EQ(refused.Reason(), "FORBIDDEN");
  EXPECT_EQ(known.ListEncodings().code, kPermissionDenied);
  auto stream = known.AttendStream();
  v1::AttendStreamResponse response;
  EXPECT_FALSE(stream->Receive(response));
  EXPECT_EQ(stream->Finish().code, kPermissionDenied);
  EXPECT_TRUE(
      EventuallyMetric("attnd_rejected_total{reason=\"forbidden\"}", 3));
}

TEST_F(SecurityTest, ACertificateNamesItsTenant) {
  Start(TlsListener(", client_ca_file: " + Path("ca.pem")) +
        "tenants: {tenants: [{name: client.attnd.test}, {name: other}]}\n");
  EXPECT_TRUE(
      Known().Attend(small_, kNoDeadline, {{"x-attnd-tenant", "other"}}).ok());
  const auto offered = [&](const std::string& tenant) {
    return Metric(absl::StrCat(
        "attnd_offered_worker_seconds_total{tenant_class=\"", tenant, "\"}"));
  };
  EXPECT_GT(offered("client.attnd.test"), 0);
  EXPECT_EQ(offered("other"), 0);
}

// So that a gateway can call for many; who must not choose has a certificate
// that names a tenant, and no other is allowed.
TEST_F(SecurityTest, MetadataIsBelievedWhereTheCertificateNamesNoTenant) {
  const std::string listener =
      TlsListener(", client_ca_file: " + Path("ca.pem"));
  const auto offered = [&] {
    return Metric("attnd_offered_worker_seconds_total{tenant_class=\"other\"}");
  };
  Start(listener + "tenants: {tenants: [{name: other}]}\n");
  EXPECT_TRUE(
      Known().Attend(small_, kNoDeadline, {{"x-attnd-tenant", "other"}}).ok());
  EXPECT_GT(offered(), 0);
  Start(listener +
        "tenants: {tenants: [{name: other}]}\n"
        "security: {methods: [{method: '*', identities: [other]}]}\n");
  EXPECT_EQ(
      Known().Attend(small_, kNoDeadline, {{"x-attnd-tenant", "other"}}).code,
      kPermissionDenied);
  EXPECT_EQ(offered(), 0);
}

// Every port of a gRPC server serves all its services, so health has its own.
TEST_F(SecurityTest, ThePlainHealthPortServesHealthAlone) {
  Start(TlsListener(", health_address: '127.0.0.1:0'"));
  ASSERT_EQ(server_->health_addresses().size(), 1u);
  TestClient probe(server_->health_addresses()[0]);
  EXPECT_EQ(probe.Health(""), 1);
  EXPECT_EQ(probe.Health(server::kServiceHealthName), 1);
  EXPECT_EQ(probe.Health(server::kLivenessHealthName), 1);
  EXPECT_EQ(probe.Health("nope"), -kNotFound);
  EXPECT_EQ(probe.Attend(small_).code, kUnimplemented);
  EXPECT_EQ(probe
                .CallRaw("/grpc.reflection.v1alpha.ServerReflection/"
                         "ServerReflectionInfo",
                         "")
                .code,
            kUnimplemented);
  // A second server in the process, with reflection, changes nothing.
  TestClient tls = Stranger();
  EXPECT_THAT(tls.ReflectedServices(), HasSubstr("attnd.v1.AttentionScoring"));
  server_->Drain();
}

TEST_F(SecurityTest, NewCertificatesAreUsedWithoutLosingCalls) {
  Start(TlsListener(""));
  TestClient before = Stranger();
  ASSERT_TRUE(before.Attend(small_).ok());
  // A certificate for another name: who asks for the old one is refused soon.
  Write("cert.new", kTestClientCertificate);
  Write("key.new", kTestClientKey);
  fs::rename(folder_ / "key.new", folder_ / "key.pem");
  fs::rename(folder_ / "cert.new", folder_ / "cert.pem");
  EXPECT_TRUE(Eventually([&] { return !Stranger().Attend(small_).ok(); }));
  EXPECT_TRUE(before.Attend(small_).ok()) << "a connection that existed";
}

const std::string& WeakAuthority() {
  for (const TlsKind& kind : TlsKinds()) {
    if (kind.name == "clients of a weak root") return kind.authorities;
  }
  std::abort();
}

TEST_F(SecurityTest, FilesThatCannotBeUsedLeaveTheOldOnesInForce) {
  Start(TlsListener(", client_ca_file: " + Path("ca.pem")));
  double refused = 0, taken = 0;
  const std::string broken = std::string(kTestServerCertificate) +
                             "-----BEGIN CERTIFICATE-----\nMII\n";
  const std::string& weak = WeakAuthority();
  const std::string weak_chain = kTestServerCertificate + weak;
  for (const auto& [name, good, bad] :
       {std::tuple("cert.pem", kTestServerCertificate, broken.c_str()),
        {"cert.pem", kTestServerCertificate, kTestClientCertificate},
        {"cert.pem", kTestServerCertificate, weak_chain.c_str()},
        {"key.pem", kTestServerKey, kTestClientKey},
        {"ca.pem", kTestAuthority, weak.c_str()},
        {"ca.pem", kTestAuthority, "garbage"}}) {
    for (const bool removed : {false, true}) {
      if (removed) {
        fs::remove(folder_ / name);
      } else {
        Replace(name, bad);
      }
      EXPECT_TRUE(EventuallyMetric("attnd_tls_reloads_total{result=\"error\"}",
                                   ++refused))
          << name << ": " << bad;
      const auto result = Known().Attend(small_);
      EXPECT_TRUE(result.ok()) << name << ": " << result.message;
    }
    Replace(name, good);
    EXPECT_TRUE(
        EventuallyMetric("attnd_tls_reloads_total{result=\"ok\"}", ++taken));
    EXPECT_TRUE(Known().Attend(small_).ok());
  }
}

TEST_F(SecurityTest, FilesThatCannotBeUsedAreNamedAtStart) {
  const server::Machine machine = server::ReadMachine();
  const auto start = [&](const std::string& name, const std::string& text) {
    const std::string good =
        name == "cert.pem" ? kTestServerCertificate : kTestServerKey;
    Write(name, text);
    const auto config = server::ParseConfig(
        TlsListener("") + "admin: {address: 'off'}\n", "a.yaml", machine);
    EXPECT_TRUE(config.ok()) << config.status();
    const absl::Status status =
        server::Server::Start(*config, machine).status();
    Write(name, good);
    return std::string(status.message());
  };
  EXPECT_THAT(start("cert.pem", "nonsense"), HasSubstr("certificate_file"));
  EXPECT_THAT(start("cert.pem", kTestServerCertificate + WeakAuthority()),
              HasSubstr("ca key too small"));
  EXPECT_THAT(start("key.pem", ""), HasSubstr("key_file"));
  EXPECT_THAT(start("key.pem", kTestClientKey),
              HasSubstr("not the key of the certificate"));
}

TEST_F(SecurityTest, TokensAreWantedOnEveryCall) {
  Write("token", "0123456789abcdef\n");
  Start("security: {bearer_token_file: " + Path("token") + "}\n");
  for (const Metadata& metadata :
       {Metadata{}, Metadata{{"authorization", "Bearer 0123456789abcdeX"}},
        Metadata{{"authorization", "0123456789abcdef"}},
        Metadata{{"authorization", "Bearer 0123456789abcdef0"}}}) {
    const auto refused = client_->Attend(small_, kNoDeadline, metadata);
    EXPECT_EQ(refused.code, kUnauthenticated);
    EXPECT_EQ(refused.Reason(), "UNAUTHENTICATED");
    EXPECT_FALSE(refused.Retryable());
  }
  EXPECT_TRUE(client_
                  ->Attend(small_, kNoDeadline,
                           {{"authorization", "Bearer 0123456789abcdef"}})
                  .ok());
  EXPECT_EQ(client_->GetServerInfo().code, kUnauthenticated);
  auto stream = client_->AttendStream();
  v1::AttendStreamResponse response;
  EXPECT_FALSE(stream->Receive(response));
  EXPECT_EQ(stream->Finish().Reason(), "UNAUTHENTICATED");
  EXPECT_TRUE(
      EventuallyMetric("attnd_rejected_total{reason=\"unauthenticated\"}", 6));
  EXPECT_EQ(client_->Health(""), 1) << "probes have no token";
}

TEST_F(SecurityTest, SocketsHaveTheModeThatWasAskedFor) {
  const std::string path = Path("attnd.sock");
  Start("listeners: [{address: 'unix:" + path + "', unix_mode: '0600'}]\n");
  EXPECT_TRUE(client_->Attend(small_).ok());
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(SecurityTest, TheTraceContextComesBack) {
  Start();
  const std::string parent =
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  auto result = client_->Attend(small_, kNoDeadline, {{"traceparent", parent}});
  EXPECT_EQ(result.trailers["traceparent"], parent);
  EXPECT_THAT(result.trailers["server-timing"], HasSubstr("compute;dur="));
  result = client_->Attend(small_, kNoDeadline, {{"traceparent", "nonsense"}});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.trailers.count("traceparent"), 0u);
}

}  // namespace
}  // namespace attnd::testing
