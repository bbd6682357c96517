// Configurations that change while requests run.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/integration/service_test.h"
#include "tests/integration/slow_work.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kAlibi[] =
    "encodings: [{name: e, time_unit: position, two_sided: absolute_lag, "
    "biases: [{alibi: {bias_max: 8}}]}]\n";
constexpr char kSteeper[] =
    "encodings: [{name: e, time_unit: position, two_sided: absolute_lag, "
    "biases: [{alibi: {bias_max: 1}}]}, {name: more}]\n";

class ReloadTest : public ServiceTest {
 protected:
  void SetUp() override {
    Start("workers: 1\n" + std::string(kAlibi), work_.Function());
    request_.set_encoding("e");
  }
  void TearDown() override { work_.Release(1 << 20); }

  absl::Status Reload(const std::string& yaml) {
    const auto config = server::ParseConfig(
        "listeners: [{address: '127.0.0.1:0'}]\n"
        "log: {level: warning}\nadmin: {address: 'off'}\n"
        "drain: {delay_seconds: 0, grace_seconds: 10}\n" +
            std::string(yaml.find("workers:") == std::string::npos
                            ? "workers: 1\n"
                            : "") +
            yaml,
        "new.yaml", server::ReadMachine());
    if (!config.ok()) {
      server_->RefuseReload(config.status());
      return config.status();
    }
    return server_->Reload(*config);
  }
  Result<v1::AttendResponse> Attend() {
    work_.Release(1);
    return client_->Attend(request_);
  }

  SlowWork work_;
  v1::AttendRequest request_ = MakeRequest({});
};

TEST_F(ReloadTest, RequestsEndUnderTheConfigurationTheyBeganWith) {
  const auto before = Attend();
  ASSERT_TRUE(before.ok()) << before.message;
  EXPECT_EQ(before.reply.stats().config_generation(), 1);
  auto running = client_->StartAttend(request_);
  ASSERT_TRUE(EventuallyMetric("attnd_requests_running", 1));
  auto waiting = client_->StartAttend(request_);
  ASSERT_TRUE(EventuallyMetric("attnd_requests_waiting", 1));
  const absl::Status reloaded = Reload(kSteeper);
  ASSERT_TRUE(reloaded.ok()) << reloaded;
  EXPECT_EQ(Metric("attnd_config_generation"), 2);
  EXPECT_EQ(Metric("attnd_config_reloads_total{result=\"ok\"}"), 1);
  work_.Release(2);
  for (auto* call : {running.get(), waiting.get()}) {
    ASSERT_TRUE(call->Wait().ok()) << call->Wait().message;
    EXPECT_EQ(call->Wait().reply.stats().config_generation(), 1);
    EXPECT_EQ(call->Wait().reply.output().data(), before.reply.output().data());
  }
  const auto after = Attend();
  ASSERT_TRUE(after.ok()) << after.message;
  EXPECT_EQ(after.reply.stats().config_generation(), 2);
  EXPECT_NE(after.reply.stats().config_hash(),
            before.reply.stats().config_hash());
  EXPECT_NE(after.reply.output().data(), before.reply.output().data());
  EXPECT_EQ(Metric("attnd_request_seconds_count{encoding=\"more\",method="
                   "\"Attend\"}"),
            0)
      << "series of new encodings are there";
}

TEST_F(ReloadTest, WhatIsWrongLeavesEverythingAsItWas) {
  const auto before = Attend();
  ASSERT_TRUE(before.ok()) << before.message;
  EXPECT_FALSE(Reload("encodings: [{name: e, biases: [{alibi: {}}]}]\n").ok());
  const absl::Status fixed = Reload("workers: 2\n" + std::string(kAlibi));
  EXPECT_EQ(fixed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(fixed.message()), HasSubstr("workers"));
  for (const char* yaml :
       {"limits: {message_bytes: 1000000}\n", "limits: {batch: 7}\n"}) {
    const bool may = std::string(yaml).find("batch") != std::string::npos;
    EXPECT_EQ(Reload(yaml + std::string(kAlibi)).ok(), may) << yaml;
  }
  EXPECT_EQ(Metric("attnd_config_reloads_total{result=\"error\"}"), 3);
  EXPECT_EQ(Metric("attnd_config_generation"), 2);
  EXPECT_EQ(client_->GetServerInfo().reply.limits().batch(), 7);
  const auto after = Attend();
  ASSERT_TRUE(after.ok()) << after.message;
  EXPECT_EQ(after.reply.output().data(), before.reply.output().data());
  EXPECT_EQ(client_->Health(""), 1);
}

TEST_F(ReloadTest, ADrainRunsBesideReloads) {
  std::atomic<bool> stop{false};
  std::thread reloads([&] {
    for (int i = 0; !stop; ++i) {
      EXPECT_TRUE(Reload(i % 2 == 0 ? kSteeper : kAlibi).ok());
    }
  });
  EXPECT_TRUE(
      Eventually([&] { return Metric("attnd_config_generation") > 2; }));
  server_->Drain();
  stop = true;
  reloads.join();
}

TEST_F(ReloadTest, TenantsAndQuotasChange) {
  const Metadata as_a = {{"x-attnd-tenant", "a"}};
  work_.Release(100);
  EXPECT_TRUE(client_->Attend(request_, kNoDeadline, as_a).ok());
  // Next to nothing: the first request uses it up.
  ASSERT_TRUE(Reload("tenants: {tenants: [{name: a, quota_worker_seconds: "
                     "1e-9}]}\n" +
                     std::string(kAlibi))
                  .ok());
  // Compiling the encoding would count as well.
  EXPECT_TRUE(client_->Attend(request_).ok());
  EXPECT_TRUE(client_->Attend(request_, kNoDeadline, as_a).ok());
  const auto refused = client_->Attend(request_, kNoDeadline, as_a);
  EXPECT_EQ(refused.code, kResourceExhausted);
  EXPECT_EQ(refused.Reason(), "QUOTA");
  EXPECT_TRUE(refused.Retryable());
  rpc::v1::QuotaFailure failure;
  EXPECT_TRUE(refused.Detail("QuotaFailure", failure));
  EXPECT_THAT(failure.violations(0).subject(), HasSubstr("a"));
  EXPECT_TRUE(client_->Attend(request_).ok()) << "the default tenant";
  EXPECT_EQ(Metric("attnd_rejected_total{reason=\"quota\"}"), 1);
}

}  // namespace
}  // namespace attnd::testing
