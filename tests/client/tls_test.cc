// TLS as the client does it, against a stub that has it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/client.h"
#include "client/files.h"
#include "tests/client/attnctl_process.h"
#include "tests/client/stub_service.h"
#include "tests/client/test_certificates.h"

namespace attnd::client {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<grpc::ServerCredentials> ServerTls(bool ask_for_client) {
  grpc::SslServerCredentialsOptions options(
      ask_for_client
          ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
          : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_root_certs = kTestAuthority;
  options.pem_key_cert_pairs = {{kTestServerKey, kTestServerCertificate}};
  return grpc::SslServerCredentials(options);
}

absl::Status Call(const StubService& stub, const TlsOptions& tls) {
  const auto client = Client::Create({.endpoints = {stub.address()},
                                      .timeout = absl::Seconds(20),
                                      .tls = tls});
  if (!client.ok()) return client.status();
  return client->Attend({}).status();
}

TEST(Tls, TrustsTheAuthorityItIsGiven) {
  StubService stub(ServerTls(false));
  EXPECT_EQ(Call(stub, {.root_certificates = kTestAuthority,
                        .server_name = "server.attnd.test"}),
            absl::OkStatus());
}

TEST(Tls, RefusesStrangersAndOtherNames) {
  StubService stub(ServerTls(false));
  EXPECT_TRUE(
      absl::IsUnavailable(Call(stub, {.server_name = "server.attnd.test"})));
  EXPECT_TRUE(
      absl::IsUnavailable(Call(stub, {.root_certificates = kTestAuthority,
                                      .server_name = "another.attnd.test"})));
}

TEST(Tls, ShowsItsOwnCertificate) {
  StubService stub(ServerTls(true));
  TlsOptions tls = {.root_certificates = kTestAuthority,
                    .server_name = "server.attnd.test"};
  EXPECT_TRUE(absl::IsUnavailable(Call(stub, tls)));
  tls.certificate_chain = kTestClientCertificate;
  tls.private_key = kTestClientKey;
  EXPECT_EQ(Call(stub, tls), absl::OkStatus());
}

TEST(Tls, PlainTextIsNotAnswered) {
  StubService stub(ServerTls(false));
  const auto client = Client::Create(
      {.endpoints = {stub.address()}, .timeout = absl::Seconds(20)});
  EXPECT_TRUE(absl::IsUnavailable(client->Attend({}).status()));
}

TEST(Tls, AttnctlReadsTheFiles) {
  StubService stub(ServerTls(true));
  const std::string folder = FreshFolder();
  const auto write = [&](const char* name, const char* pem) {
    EXPECT_TRUE(WriteFile(folder + name, pem).ok());
    return folder + name;
  };
  const ProcessResult result = RunAttnctl(
      {"health", "--target", stub.address(), "--tls-ca",
       write("ca.pem", kTestAuthority), "--tls-cert",
       write("cert.pem", kTestClientCertificate), "--tls-key",
       write("key.pem", kTestClientKey), "--tls-name", "server.attnd.test"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const ProcessResult wrong =
      RunAttnctl({"health", "--target", stub.address(), "--tls-ca",
                  write("not.pem", "no certificate")});
  EXPECT_EQ(wrong.exit_code, 4);
  EXPECT_THAT(wrong.err, HasSubstr("expected a PEM file"));
}

}  // namespace
}  // namespace attnd::client
