// Two replicas that are restarted one after the other while a client calls.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "tests/integration/reserved_port.h"
#include "tests/proof/proof_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

class RestartProof : public ProofTest {
 protected:
  void Begin(int replica) {
    const std::string file = absl::StrCat(::testing::TempDir(), "restart_",
                                          getpid(), "_", replica, ".yaml");
    std::ofstream(file) << "listeners: [{address: '"
                        << ports_[replica].address() << "'}]\n"
                        << "admin: {address: '127.0.0.1:0'}\nworkers: 1\n"
                        << "log: {access_lines_per_second: 0}\n"
                        << "drain: {delay_seconds: 1, grace_seconds: 10}\n";
    replicas_[replica] =
        std::make_unique<Attnd>(std::vector<std::string>{"--config", file});
    admins_[replica] = Field(
        replicas_[replica]->WaitForLine("\"event\":\"listening\""), "admin");
    EXPECT_NE(admins_[replica], "");
    std::filesystem::remove(file);
  }

  ReservedPort ports_[2];
  std::unique_ptr<Attnd> replicas_[2];
  std::string admins_[2];
};

TEST_F(RestartProof, RollingRestartUnderLoad) {
  for (int i = 0; i < 2; ++i) Begin(i);
  auto client = client::Client::Create(
      {.endpoints = {ports_[0].address(), ports_[1].address()}});
  ASSERT_TRUE(client.ok()) << client.status();
  ASSERT_TRUE(client->WaitUntilReady(absl::Seconds(20)));
  const v1::AttendRequest small = MakeRequest({});
  // 3 MiB.
  const v1::AttendRequest large = MakeRequest({.query_heads = 8,
                                               .kv_heads = 8,
                                               .queries = 512,
                                               .keys = 512,
                                               .dim = 64,
                                               .value_dim = 64});
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, failed{0};
  std::vector<std::thread> callers;
  for (const v1::AttendRequest* request : {&small, &small, &large, &large}) {
    callers.emplace_back([&, request] {
      while (!stop) {
        const auto answer = client->Attend(*request);
        ++(answer.ok() ? answered : failed);
        if (!answer.ok()) {
          std::printf("  failed: %s\n", answer.status().ToString().c_str());
        }
      }
    });
  }
  const int restarts = full() ? 20 : 2;
  for (int i = 0; i < restarts; ++i) {
    Attnd& old = *replicas_[i % 2];
    old.Signal(SIGTERM);
    EXPECT_EQ(old.Wait(), 0);
    Begin(i % 2);
    // As a rolling update does: the next one goes when this one is used.
    EXPECT_TRUE(Eventually(
        [&] { return MetricOf(admins_[i % 2], "attnd_tokens_total") > 0; }));
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  Show("restarts", restarts);
  Show("calls answered", answered);
  AtMost("failed calls", failed, 0, 0);
}

}  // namespace
}  // namespace attnd::testing
