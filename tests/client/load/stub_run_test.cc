// Load tests in real time against a stub with known behaviour. Bounds hold on a
// crowded machine: what must be exact is proved on a simulated clock
// (conductor_test.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "client/load/runner.h"
#include "client/load/self_check.h"
#include "client/load/stream_transport.h"
#include "client/load/unary_transport.h"
#include "client/load/workload.h"
#include "tests/client/stub_service.h"
#include "tests/client/test_certificates.h"

namespace attnd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;

std::vector<Payload> SmallPayloads(const std::string& tenant = "") {
  const auto requests = MakeRequests({.heads = 1,
                                      .kv_heads = 1,
                                      .queries = 8,
                                      .keys = 8,
                                      .dim = 16,
                                      .value_dim = 16});
  std::vector<Payload> payloads;
  for (const v1::AttendRequest& request : *requests) {
    payloads.push_back({.bytes = Serialize(request)});
    if (!tenant.empty()) {
      payloads.back().metadata = {{"x-attnd-tenant", tenant}};
    }
  }
  return payloads;
}

enum class Through { kUnary, kStream };

struct Way {
  Through through = Through::kUnary;
  int connections = 1;
  std::string tenant = {};
};

std::unique_ptr<Transport> MakeTransport(const ClientOptions& options,
                                         const Way& way, int slots,
                                         const std::vector<Payload>& payloads) {
  auto channels = ConnectChannels(options, way.connections);
  EXPECT_TRUE(channels.ok()) << channels.status();
  if (!channels.ok()) return nullptr;
  if (way.through == Through::kUnary) {
    return std::make_unique<UnaryTransport>(options, *std::move(channels),
                                            slots, payloads);
  }
  return std::make_unique<StreamTransport>(options, *std::move(channels), slots,
                                           payloads);
}

RunOutcome RunAgainst(const ClientOptions& options, ConductorOptions conductor,
                      const Way& way = {}) {
  const std::vector<Payload> payloads = SmallPayloads(way.tenant);
  const auto transport = MakeTransport(options, way, conductor.slots, payloads);
  if (transport == nullptr) return {};
  conductor.work = {{.requests = static_cast<int>(payloads.size())}};
  conductor.timeout_ns = absl::ToInt64Nanoseconds(options.timeout);
  return RunLoad(std::move(conductor), *transport);
}

ClientOptions To(const StubService& stub,
                 absl::Duration timeout = absl::Seconds(30)) {
  return {.endpoints = {stub.address()}, .timeout = timeout};
}

Arrivals Even(double rate, double seconds) {
  return Arrivals::Even(*RateProfile::Make({{seconds, rate, rate}}));
}

double Seconds(int64_t ns) { return 1e-9 * static_cast<double>(ns); }

class StubRun : public ::testing::TestWithParam<Through> {};
INSTANTIATE_TEST_SUITE_P(Transports, StubRun,
                         ::testing::Values(Through::kUnary, Through::kStream),
                         [](const auto& info) {
                           return info.param == Through::kUnary ? "Unary"
                                                                : "Stream";
                         });

// Case C27: a server that takes 20 ms, one call at a time, 30 calls.
TEST_P(StubRun, ThroughputIsOverTheTrueSpan) {
  StubService stub;
  stub.delay = absl::Milliseconds(20);
  const LoadResult result =
      RunAgainst(To(stub), {.calls = 30}, {GetParam()}).result;
  EXPECT_EQ(result.all.ok, 30);
  EXPECT_EQ(result.all.failed, 0);
  EXPECT_GE(result.span_seconds, 0.6);
  EXPECT_LE(result.Throughput(), 50);
  // Not a bound on this machine's noise: half the rate would be a wrong window.
  EXPECT_GE(result.Throughput(), 25.1);
  EXPECT_GE(result.all.service_ns.Min(), 19'900'000);
}

// Case C26 with the real clock.
TEST_P(StubRun, LatencyRunsFromThePlannedMoment) {
  StubService stub;
  stub.delay = absl::Milliseconds(260);
  const LoadResult result =
      RunAgainst(To(stub), {.arrivals = Even(5, 2), .wait_when_full = true},
                 {GetParam()})
          .result;
  EXPECT_EQ(result.all.ok, 10);
  EXPECT_EQ(result.waited, 9);
  EXPECT_GE(Seconds(result.all.latency_ns.Max()), 0.799);
  EXPECT_GE(1e-9 * result.all.latency_ns.Mean(), 0.529);
  // The service itself keeps its time, up to what the machine adds.
  EXPECT_GE(Seconds(result.all.service_ns.Min()), 0.259);
  EXPECT_LE(Seconds(result.all.service_ns.ValueAtPercentile(50)),
            Seconds(result.all.latency_ns.ValueAtPercentile(50)) - 0.2);
  EXPECT_FALSE(Remarks(result).empty());
}

TEST_P(StubRun, UsesAsManyConnectionsAsAskedFor) {
  StubService stub;
  const LoadResult result =
      RunAgainst(To(stub), {.slots = 8, .calls = 200}, {GetParam(), 4}).result;
  EXPECT_EQ(result.all.ok, 200);
  EXPECT_EQ(stub.connections(), 4);
  EXPECT_EQ(stub.arrivals().size(), 200u);
}

TEST_P(StubRun, ManyInFlightShareTheWait) {
  StubService stub;
  stub.delay = absl::Milliseconds(50);
  const LoadResult result =
      RunAgainst(To(stub), {.slots = 20, .calls = 100}, {GetParam()}).result;
  EXPECT_EQ(result.all.ok, 100);
  // Five rounds of 50 ms, not a hundred.
  EXPECT_GE(result.span_seconds, 0.25);
  EXPECT_LT(result.span_seconds, 2.5);
}

TEST_P(StubRun, FailuresAreCountedAndNotRetried) {
  StubService stub;
  stub.on_attend = [](int number, const v1::AttendRequest&,
                      v1::AttendResponse*) {
    return number % 2 == 0
               ? grpc::Status::OK
               : Refusal(grpc::StatusCode::UNAVAILABLE, "queue full",
                         {RetryAfter(absl::Milliseconds(1))});
  };
  const LoadResult result =
      RunAgainst(To(stub), {.calls = 20}, {GetParam()}).result;
  EXPECT_EQ(result.all.ok, 10);
  EXPECT_EQ(result.all.failed, 10);
  EXPECT_EQ(stub.arrivals().size(), 20u);
  EXPECT_EQ(result.all.errors.at(absl::StatusCode::kUnavailable).example,
            "queue full");
}

TEST_P(StubRun, RetriesWhenToldToAndSaysSo) {
  StubService stub;
  stub.on_attend = [](int number, const v1::AttendRequest&,
                      v1::AttendResponse*) {
    return number % 3 == 2
               ? grpc::Status::OK
               : Refusal(grpc::StatusCode::UNAVAILABLE, "queue full",
                         {RetryAfter(absl::Milliseconds(1))});
  };
  const LoadResult result =
      RunAgainst(To(stub), {.calls = 10, .max_attempts = 4}, {GetParam()})
          .result;
  EXPECT_EQ(result.all.ok, 10);
  EXPECT_EQ(result.attempts, 30);
  EXPECT_EQ(stub.arrivals().size(), 30u);
  if (GetParam() == Through::kUnary) {
    EXPECT_EQ(stub.arrivals()[1].previous_attempts, "1");
    EXPECT_EQ(stub.arrivals()[3].previous_attempts, "");
  }
}

TEST_P(StubRun, DeadlinesAreFailures) {
  StubService stub;
  stub.delay = absl::Milliseconds(300);
  const LoadResult result =
      RunAgainst(To(stub, absl::Milliseconds(20)), {.calls = 2}, {GetParam()})
          .result;
  EXPECT_EQ(result.all.errors.at(absl::StatusCode::kDeadlineExceeded).count, 2);
  EXPECT_EQ(Invalidities(result)[0], "none of 2 calls succeeded");
}

// A run in which no answer tells that it is over, and the next one on the same
// connections.
TEST_P(StubRun, EndsWithNothingInFlightAndCanGoOn) {
  StubService stub;
  const std::vector<Payload> payloads = SmallPayloads();
  const auto transport = MakeTransport(To(stub), {GetParam()}, 1, payloads);
  const std::atomic<bool> stop = true;
  for (int i = 0; i < 3; ++i) {
    const LoadResult result =
        RunLoad({.arrivals = Even(1, 1e6)}, *transport, {.stop = &stop}).result;
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(result.planned, 0);
  }
  EXPECT_EQ(RunLoad({.calls = 5}, *transport).result.all.ok, 5);
}

TEST_P(StubRun, SendsTheTenant) {
  StubService stub;
  RunAgainst(To(stub), {.calls = 3}, {GetParam(), 1, "team-a"});
  ASSERT_EQ(stub.arrivals().size(), 3u);
  EXPECT_EQ(stub.arrivals()[0].tenant, "team-a");
}

TEST_P(StubRun, KeepsTheAnswersToVerify) {
  StubService stub;
  stub.on_attend = [](int, const v1::AttendRequest& request,
                      v1::AttendResponse* response) {
    response->mutable_output()->set_data(request.value().data());
    return grpc::Status::OK;
  };
  RunOutcome outcome =
      RunAgainst(To(stub), {.calls = 8, .verify_share = 1}, {GetParam()});
  ASSERT_EQ(outcome.kept.size(), 8u);
  for (KeptAnswer& kept : outcome.kept) {
    grpc::Slice slice;
    ASSERT_TRUE(kept.answer.DumpToSingleSlice(&slice).ok());
    v1::AttendResponse answer;
    ASSERT_TRUE(
        answer.ParseFromArray(slice.begin(), static_cast<int>(slice.size())));
    EXPECT_EQ(answer.output().data().size(), 8u * 16 * 4);
  }
}

TEST_P(StubRun, SpeaksTlsWithItsOwnCertificate) {
  grpc::SslServerCredentialsOptions server(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server.pem_root_certs = kTestAuthority;
  server.pem_key_cert_pairs = {{kTestServerKey, kTestServerCertificate}};
  StubService stub(grpc::SslServerCredentials(server));
  ClientOptions options = To(stub);
  options.tls = TlsOptions{.root_certificates = kTestAuthority,
                           .certificate_chain = kTestClientCertificate,
                           .private_key = kTestClientKey,
                           .server_name = "server.attnd.test"};
  EXPECT_EQ(RunAgainst(options, {.calls = 5}, {GetParam()}).result.all.ok, 5);
}

TEST(StubRunTest, EndpointsAreTakenInTurnAndShownApart) {
  StubService one;
  StubService two;
  two.delay = absl::Milliseconds(30);
  const LoadResult result =
      RunAgainst({.endpoints = {one.address(), two.address()},
                  .timeout = absl::Seconds(30)},
                 {.calls = 40})
          .result;
  ASSERT_EQ(result.endpoints.size(), 2u);
  for (const CallFigures& endpoint : result.endpoints) {
    EXPECT_NEAR(static_cast<double>(endpoint.ok), 20, 1);
    const bool slow = endpoint.name == two.address();
    EXPECT_TRUE(slow || endpoint.name == one.address()) << endpoint.name;
    EXPECT_GE(endpoint.service_ns.Min(), slow ? 29 * kMs : 0);
  }
}

TEST(StubRunTest, UnhealthyEndpointsAreLeftOut) {
  StubService good;
  StubService bad;
  bad.SetServing(false);
  const LoadResult result =
      RunAgainst({.endpoints = {good.address(), bad.address()},
                  .timeout = absl::Seconds(30)},
                 {.calls = 20})
          .result;
  EXPECT_EQ(result.all.ok, 20);
  EXPECT_EQ(good.arrivals().size(), 20u);
}

// wrk2's rule with the real clock: a fifth of the run is frozen.
TEST(StubRunTest, AFreezeShowsInProportion) {
  StubService stub;
  std::chrono::steady_clock::time_point first;
  stub.on_delay = [&](int number) {
    const auto now = std::chrono::steady_clock::now();
    if (number == 0) first = now;
    const auto at = now - first;
    const bool frozen =
        at >= std::chrono::seconds(1) && at < std::chrono::milliseconds(2000);
    return frozen ? absl::FromChrono(std::chrono::seconds(2) - at)
                  : absl::ZeroDuration();
  };
  const LoadResult result =
      RunAgainst(To(stub), {.arrivals = Even(100, 5), .slots = 1000}).result;
  EXPECT_EQ(result.all.ok, 500);
  const Histogram& latency = result.all.latency_ns;
  // A fraction 0.2 (1 s - x) / 1 s is above x; the machine only adds.
  EXPECT_GE(Seconds(latency.ValueAtPercentile(90)), 0.5 - 0.05);
  EXPECT_GE(Seconds(latency.ValueAtPercentile(99)), 0.95 - 0.05);
  EXPECT_GE(Seconds(latency.Max()), 0.95);
}

// Case C27: the schedule starts when the connections are ready.
TEST(StubRunTest, ASlowStartIsNoLateCall) {
  std::string address;
  { address = StubService().address(); }
  std::unique_ptr<StubService> stub;
  std::thread starter([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    stub = std::make_unique<StubService>(grpc::InsecureServerCredentials(),
                                         address);
  });
  const auto before = std::chrono::steady_clock::now();
  const LoadResult result =
      RunAgainst({.endpoints = {address}, .timeout = absl::Seconds(30)},
                 {.arrivals = Even(50, 2), .slots = 100})
          .result;
  starter.join();
  EXPECT_GE(std::chrono::steady_clock::now() - before,
            std::chrono::milliseconds(2900));
  EXPECT_EQ(result.all.ok, 100);
  EXPECT_EQ(stub->connections(), 1);
  // None was planned while nobody listened.
  EXPECT_NEAR(result.schedule_seconds, 1.98, 1e-6);
  EXPECT_LE(Seconds(result.all.latency_ns.ValueAtPercentile(50)), 0.5);
}

TEST(StubRunTest, RefusedConnectionsAreErrorsAndOver) {
  auto stub = std::make_unique<StubService>();
  const std::string address = stub->address();
  std::thread breaker([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    stub.reset();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    stub = std::make_unique<StubService>(grpc::InsecureServerCredentials(),
                                         address);
  });
  const LoadResult result =
      RunAgainst({.endpoints = {address}, .timeout = absl::Seconds(30)},
                 {.arrivals = Even(50, 6), .slots = 1000, .row_ns = kSecond})
          .result;
  breaker.join();
  EXPECT_EQ(result.planned, 300);
  EXPECT_EQ(result.all.ok + result.all.failed, 300);
  const ErrorCount& errors =
      result.all.errors.at(absl::StatusCode::kUnavailable);
  // A second of 50 calls, and what the reconnect takes: backoff of 0.2 s by
  // steps of 1.6.
  EXPECT_GE(errors.count, 35);
  EXPECT_LE(errors.count, 150);
  // Back again at the end, and the first second untouched.
  EXPECT_EQ(result.timeline.row(5).failed, 0);
  EXPECT_GE(result.timeline.row(0).ok, 25);
}

// The mean rate is exact by construction; 1 % is the bound on it.
TEST(StubRunTest, KeepsTheRate) {
  StubService stub;
  const LoadResult result = RunAgainst(To(stub), {.arrivals = Even(2000, 3),
                                                  .slots = 6000,
                                                  .warm_up_ns = kSecond})
                                .result;
  EXPECT_EQ(result.planned, 4000);
  EXPECT_NEAR(result.PlannedRate(), 2000, 1e-3);
  EXPECT_EQ(result.all.ok, 4000);
}

TEST(Connect, WithoutAServerThereIsNoRun) {
  const auto channels = ConnectChannels(
      {.endpoints = {"127.0.0.1:1"}, .timeout = absl::Milliseconds(50)}, 1);
  EXPECT_TRUE(absl::IsUnavailable(channels.status())) << channels.status();
  EXPECT_THAT(std::string(channels.status().message()),
              HasSubstr("Connection refused"));
}

TEST(Connect, AWaitIsToldOnceWithItsReasonAndCanBeStopped) {
  std::atomic<bool> stop = false;
  std::vector<std::string> told;
  const auto channels = ConnectChannels(
      {.endpoints = {"127.0.0.1:1"}, .timeout = absl::Hours(1)}, 2,
      {.tell =
           [&](const std::string& text) {
             told.push_back(text);
             stop = true;
           },
       .stop = &stop});
  EXPECT_TRUE(absl::IsCancelled(channels.status())) << channels.status();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], AllOf(HasSubstr("waiting for 127.0.0.1:1, at most 1h"),
                             HasSubstr("Connection refused")));
}

}  // namespace
}  // namespace attnd::client
