// Several servers behind one client: who gets how much.
#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "server/config.h"
#include "server/machine.h"
#include "server/server.h"
#include "tests/integration/reserved_port.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<server::Server> StartAt(const std::string& address) {
  const server::Machine machine = server::ReadMachine();
  const auto config = server::ParseConfig(
      absl::StrCat("listeners: [{address: '", address,
                   "'}]\nadmin: {address: 'off'}\nworkers: 1\n"
                   "log: {level: warning}\n"
                   "drain: {delay_seconds: 1, grace_seconds: 10}\n"),
      "test.yaml", machine);
  EXPECT_TRUE(config.ok()) << config.status();
  auto started = server::Server::Start(*config, machine);
  EXPECT_TRUE(started.ok()) << started.status();
  return started.ok() ? *std::move(started) : nullptr;
}

// Attend calls that a server has answered.
int64_t Answered(const server::Server& server) {
  const std::string text = server.MetricsText();
  const std::string series =
      "\ngrpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Attend\"";
  const size_t place = text.find(series);
  if (place == std::string::npos) return -1;
  return std::stol(text.substr(text.find("} ", place) + 2));
}

// Two replicas that serve, and the place of a third.
class ReplicasTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) Start();
    std::vector<std::string> endpoints;
    for (const ReservedPort& port : ports_) endpoints.push_back(port.address());
    auto client = client::Client::Create({.endpoints = endpoints});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = std::make_unique<client::Client>(*std::move(client));
    ASSERT_TRUE(client_->WaitUntilReady(absl::Seconds(20)));
  }
  void Start() {
    servers_.push_back(StartAt(ports_[servers_.size()].address()));
  }

  void Call() {
    const auto answer = client_->Attend(request_);
    ASSERT_TRUE(answer.ok()) << answer.status();
  }
  // What each server answers of `calls` calls from four threads.
  std::vector<int64_t> Shares(int calls) {
    std::vector<int64_t> shares;
    for (const auto& server : servers_) shares.push_back(-Answered(*server));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < calls / 4; ++i) Call();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < servers_.size(); ++i) {
      shares[i] += Answered(*servers_[i]);
    }
    return shares;
  }
  // Calls until server `index` has answered one; false after 30 s.
  bool GetsTraffic(int index) {
    const auto end = Clock::now() + std::chrono::seconds(30);
    while (Answered(*servers_[index]) == 0) {
      if (Clock::now() > end || HasFatalFailure()) return false;
      Call();
    }
    return true;
  }

  ReservedPort ports_[3];
  std::vector<std::unique_ptr<server::Server>> servers_;
  std::unique_ptr<client::Client> client_;
  const v1::AttendRequest request_ = MakeRequest({});
};

void ExpectEven(const std::vector<int64_t>& shares, int64_t calls) {
  const double even =
      static_cast<double>(calls) / static_cast<double>(shares.size());
  for (const int64_t share : shares) {
    EXPECT_THAT(static_cast<double>(share),
                ::testing::DoubleNear(even, 0.2 * even));
  }
}

TEST_F(ReplicasTest, TwoShareEvenly) {
  ASSERT_TRUE(GetsTraffic(0));
  ASSERT_TRUE(GetsTraffic(1));
  ExpectEven(Shares(400), 400);
}

TEST_F(ReplicasTest, AThirdGetsItsShareWithin30Seconds) {
  ASSERT_TRUE(GetsTraffic(0));
  ASSERT_TRUE(GetsTraffic(1));
  Start();
  ASSERT_TRUE(GetsTraffic(2));
  ExpectEven(Shares(600), 600);
}

TEST_F(ReplicasTest, OneThatDrainsIsLeftWithoutAFailedCall) {
  ASSERT_TRUE(GetsTraffic(0));
  ASSERT_TRUE(GetsTraffic(1));
  std::thread drain([&] { servers_[0]->Drain(); });
  for (int i = 0; i < 400; ++i) Call();
  drain.join();
  const int64_t before = Answered(*servers_[0]);
  ExpectEven({Shares(100)[1]}, 100);
  EXPECT_EQ(Answered(*servers_[0]), before);
}

}  // namespace
}  // namespace attnd::testing
