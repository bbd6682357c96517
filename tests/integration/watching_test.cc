// What watches the server: health, readiness, metrics, reflection; and what it
// sees while the server drains.
#include <gmock/gmock.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "tests/integration/service_test.h"
#include "tests/server/http.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kServing = 1, kNotServing = 2;

class WatchingTest : public ServiceTest {};

// Healthy too early, or only under one name.
TEST_F(WatchingTest, HealthKnowsItsNames) {
  Start();
  for (const char* name : {"", "attnd.v1.AttentionScoring", "liveness"}) {
    EXPECT_EQ(client_->Health(name), kServing) << name;
  }
  EXPECT_EQ(client_->Health("nope"), -kNotFound);
}

// Readiness and the service go, liveness stays, until the end.
TEST_F(WatchingTest, DrainIsSeenOnceByEveryWatcher) {
  Start("drain: {delay_seconds: 0.3, grace_seconds: 20}\n");
  std::mutex mutex;
  std::vector<int> ready, service, liveness;
  const auto record = [&](std::vector<int>& list) {
    return [&](int status) {
      std::lock_guard lock(mutex);
      list.push_back(status);
    };
  };
  const auto seen = [&](const std::vector<int>& list) {
    std::lock_guard lock(mutex);
    return list;
  };
  auto a = client_->WatchHealth("", record(ready));
  auto b = client_->WatchHealth("attnd.v1.AttentionScoring", record(service));
  auto c = client_->WatchHealth("liveness", record(liveness));
  for (auto* list : {&ready, &service, &liveness}) {
    ASSERT_TRUE(Eventually([&] { return seen(*list).size() == 1; }));
  }
  auto drained = std::async(std::launch::async, [&] { server_->Drain(); });
  ASSERT_TRUE(Eventually([&] { return seen(ready).size() == 2; }));
  // Still in the delay: new calls are answered.
  EXPECT_EQ(client_->Health("liveness"), kServing);
  EXPECT_TRUE(client_->Attend(MakeRequest({})).ok());
  // Watchers do not hold the server up for the whole grace.
  EXPECT_EQ(drained.wait_for(std::chrono::seconds(10)),
            std::future_status::ready);
  a.reset();
  b.reset();
  c.reset();
  EXPECT_THAT(seen(ready), ElementsAre(kServing, kNotServing));
  EXPECT_THAT(seen(service), ElementsAre(kServing, kNotServing));
  EXPECT_THAT(seen(liveness), ElementsAre(kServing));
}

// What is in flight when the drain starts is answered; what comes after the
// delay is sent elsewhere.
TEST_F(WatchingTest, DrainFinishesWhatIsInFlight) {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  Start("workers: 1\n", [&](const Plan& plan, int64_t unit,
                            Workspace& workspace, const OutputBuffers& out,
                            const std::atomic<bool>* stop, UnitStats* stats) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
    lock.unlock();
    return RunUnit(plan, unit, workspace, out, stop, stats);
  });
  auto running = client_->StartAttend(MakeRequest({}));
  auto waiting = client_->StartAttend(MakeRequest({}));
  ASSERT_TRUE(EventuallyMetric("attnd_requests_waiting", 1));
  auto drained = std::async(std::launch::async, [&] { server_->Drain(); });
  ASSERT_TRUE(EventuallyMetric("attnd_drain_state", 2));
  TestClient late(server_->addresses()[0]);
  const auto refused = late.Attend(MakeRequest({}));
  EXPECT_EQ(refused.code, kUnavailable) << refused.message;
  EXPECT_FALSE(running->ended());
  {
    std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  EXPECT_TRUE(running->Wait().ok());
  EXPECT_TRUE(waiting->Wait().ok());
  EXPECT_EQ(drained.wait_for(std::chrono::seconds(10)),
            std::future_status::ready);
  EXPECT_EQ(Metric("attnd_requests_running"), 0);
}

TEST_F(WatchingTest, WhatOutlastsTheGraceIsEndedAsUnavailable) {
  Start("workers: 1\ndrain: {delay_seconds: 0, grace_seconds: 0.2}\n",
        [](const Plan&, int64_t, Workspace&, const OutputBuffers&,
           const std::atomic<bool>* stop, UnitStats*) {
          while (!*stop) std::this_thread::yield();
          return absl::CancelledError("stopped");
        });
  auto running = client_->StartAttend(MakeRequest({}));
  ASSERT_TRUE(EventuallyMetric("attnd_requests_running", 1));
  server_->Drain();
  const auto& result = running->Wait();
  EXPECT_THAT(result.code, ::testing::AnyOf(kUnavailable, kCancelled))
      << result.message;
}

TEST_F(WatchingTest, ReflectionListsTheServices) {
  Start();
  const std::string names = client_->ReflectedServices();
  EXPECT_THAT(names, HasSubstr("attnd.v1.AttentionScoring"));
  EXPECT_THAT(names, HasSubstr("grpc.health.v1.Health"));
}

// NaN or nothing at idle: scraped before anything else happens, and after one
// request.
TEST_F(WatchingTest, MetricsOverHttp) {
  Start("admin: {address: '127.0.0.1:0'}\n");
  const std::string admin = server_->admin_address();
  const auto names = [&] {
    const std::string text = Http(admin, "GET /metrics");
    EXPECT_THAT(text, StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(text, HasSubstr("Content-Type: text/plain; version=0.0.4"));
    std::set<std::string> series;
    const std::string body = text.substr(text.find("\r\n\r\n") + 4);
    for (absl::string_view line : absl::StrSplit(body, '\n')) {
      if (line.empty() || line[0] == '#') continue;
      const size_t space = line.rfind(' ');
      series.emplace(line.substr(0, space));
      const std::string value = absl::AsciiStrToLower(line.substr(space + 1));
      EXPECT_THAT(value, Not(HasSubstr("nan"))) << line;
      EXPECT_THAT(value, Not(HasSubstr("inf"))) << line;
    }
    return series;
  };
  const std::set<std::string> fresh = names();
  EXPECT_GT(fresh.size(), 300u);
  EXPECT_TRUE(
      fresh.count("attnd_offered_worker_seconds_total{tenant_class=\""
                  "default\"}"));
  EXPECT_TRUE(client_->Attend(MakeRequest({})).ok());
  client_->Attend({});
  EXPECT_EQ(names(), fresh) << "a series appeared or vanished";
  EXPECT_EQ(Metric("grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\""
                   "Attend\",grpc_service=\"attnd.v1.AttentionScoring\",grpc_"
                   "type=\"unary\"}"),
            1);

  EXPECT_THAT(Http(admin, "GET /livez"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Http(admin, "GET /readyz"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Http(admin, "GET /version"), HasSubstr("\"version\":\""));
  server_->Drain();
  EXPECT_THAT(Http(admin, "GET /livez"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Http(admin, "GET /readyz"), StartsWith("HTTP/1.1 503 "));
}

TEST_F(WatchingTest, SeveralListenersServeTheSame) {
  const std::string socket =
      ::testing::TempDir() + "attnd_" + std::to_string(getpid()) + ".sock";
  Start("workers: 1\n");
  const server::Machine machine = server::ReadMachine();
  const auto config = server::ParseConfig(
      "listeners: [{address: '127.0.0.1:0'}, {address: '127.0.0.1:0'}, "
      "{address: 'unix:" +
          socket +
          "'}]\nadmin: {address: 'off'}\n"
          "log: {level: warning}\n",
      "test.yaml", machine);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto server = server::Server::Start(*config, machine);
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_EQ((*server)->addresses().size(), 3u);
  EXPECT_NE((*server)->addresses()[0], (*server)->addresses()[1]);
  EXPECT_EQ((*server)->addresses()[2], "unix:" + socket);
  for (const std::string& address : (*server)->addresses()) {
    EXPECT_TRUE(TestClient(address).Attend(MakeRequest({})).ok()) << address;
  }
}

TEST_F(WatchingTest, ATakenPortStopsTheStart) {
  Start();
  const server::Machine machine = server::ReadMachine();
  const auto config = server::ParseConfig(
      "listeners: [{address: '" + server_->addresses()[0] +
          "'}]\nadmin: {address: 'off'}\nlog: {level: error}\n",
      "test.yaml", machine);
  const auto second = server::Server::Start(*config, machine);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(server_->addresses()[0]));
  EXPECT_TRUE(client_->Attend(MakeRequest({})).ok());
}

}  // namespace
}  // namespace attnd::testing
