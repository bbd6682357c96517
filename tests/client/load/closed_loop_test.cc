#include "client/load/closed_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/load/report.h"
#include "client/load/workload.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "tests/client/stub_service.h"

namespace attnd::client {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<grpc::ByteBuffer> SmallRequests() {
  const auto requests = MakeRequests({.heads = 1,
                                      .kv_heads = 1,
                                      .queries = 8,
                                      .keys = 8,
                                      .dim = 16,
                                      .value_dim = 16});
  std::vector<grpc::ByteBuffer> payloads;
  for (const v1::AttendRequest& request : *requests) {
    payloads.push_back(Serialize(request));
  }
  return payloads;
}

LoadResult RunLoop(const StubService& stub, const ClosedLoop& loop,
                   int connections = 1,
                   absl::Duration timeout = absl::Seconds(30)) {
  auto caller =
      Caller::Connect({.endpoints = {stub.address()}, .timeout = timeout},
                      connections, loop.in_flight);
  EXPECT_TRUE(caller.ok()) << caller.status();
  return RunClosedLoop(loop, SmallRequests(), **caller);
}

// Case C27: a server that takes 20 ms, one call at a time, 30 calls.
TEST(ClosedLoop, ThroughputIsOverTheTrueSpan) {
  StubService stub;
  stub.delay = absl::Milliseconds(20);
  const LoadResult result = RunLoop(stub, {.calls = 30});
  EXPECT_EQ(result.ok, 30);
  EXPECT_EQ(result.failed, 0);
  EXPECT_GE(result.span_seconds, 0.6);
  EXPECT_DOUBLE_EQ(result.Throughput(), 30 / result.span_seconds);
  EXPECT_LE(result.Throughput(), 50);
  // Not a bound on this machine's noise: half the rate would be a wrong window.
  EXPECT_GE(result.Throughput(), 40);
  EXPECT_GE(result.latency_ns.Min(), 19'900'000);
}

TEST(ClosedLoop, UsesAsManyConnectionsAsAskedFor) {
  StubService stub;
  const LoadResult result = RunLoop(stub, {.in_flight = 8, .calls = 200}, 4);
  EXPECT_EQ(result.ok, 200);
  EXPECT_EQ(stub.connections(), 4);
  EXPECT_EQ(stub.arrivals().size(), 200u);
}

TEST(ClosedLoop, ManyInFlightShareTheWait) {
  StubService stub;
  stub.delay = absl::Milliseconds(50);
  const LoadResult result = RunLoop(stub, {.in_flight = 20, .calls = 100});
  EXPECT_EQ(result.ok, 100);
  // Five rounds of 50 ms, not a hundred.
  EXPECT_GE(result.span_seconds, 0.25);
  EXPECT_LT(result.span_seconds, 2.5);
}

TEST(ClosedLoop, WarmUpCallsAreCountedApart) {
  StubService stub;
  stub.delay = absl::Milliseconds(5);
  const LoadResult result =
      RunLoop(stub, {.warm_up = milliseconds(60), .calls = 10});
  EXPECT_EQ(result.ok, 10);
  EXPECT_GE(result.warm_up_calls, 1);
  EXPECT_EQ(result.latency_ns.count(), 10);
  EXPECT_EQ(stub.arrivals().size(), 10u + result.warm_up_calls);
}

TEST(ClosedLoop, ADurationEndsIt) {
  StubService stub;
  stub.delay = absl::Milliseconds(5);
  const LoadResult result = RunLoop(stub, {.duration = milliseconds(100)});
  EXPECT_GE(result.ok, 2);
  EXPECT_GE(result.span_seconds, 0.08);
  EXPECT_EQ(result.latency_ns.count(), result.ok);
}

TEST(ClosedLoop, FailuresAreCountedByCodeAndNeverRetried) {
  StubService stub;
  stub.on_attend = [](int number, const v1::AttendRequest&,
                      v1::AttendResponse*) {
    return number % 2 == 0
               ? grpc::Status::OK
               : Refusal(grpc::StatusCode::UNAVAILABLE, "queue full",
                         {RetryAfter(absl::Milliseconds(1))});
  };
  const LoadResult result = RunLoop(stub, {.calls = 20});
  EXPECT_EQ(result.ok, 10);
  EXPECT_EQ(result.failed, 10);
  EXPECT_EQ(stub.arrivals().size(), 20u);
  ASSERT_EQ(result.errors.count(absl::StatusCode::kUnavailable), 1u);
  EXPECT_EQ(result.errors.at(absl::StatusCode::kUnavailable).example,
            "queue full");
  EXPECT_EQ(result.latency_ns.count(), 10);
}

TEST(ClosedLoop, DeadlinesAreFailures) {
  StubService stub;
  stub.delay = absl::Milliseconds(300);
  const LoadResult result =
      RunLoop(stub, {.calls = 2}, 1, absl::Milliseconds(20));
  EXPECT_EQ(result.errors.at(absl::StatusCode::kDeadlineExceeded).count, 2);
  EXPECT_EQ(Invalidity(result), "none of 2 calls succeeded");
}

TEST(Caller, WithoutAServerThereIsNoRun) {
  const auto caller = Caller::Connect(
      {.endpoints = {"127.0.0.1:1"}, .timeout = absl::Milliseconds(50)}, 1, 1);
  EXPECT_TRUE(absl::IsUnavailable(caller.status())) << caller.status();
}

TEST(Report, SaysTheSameAsTextAndAsJson) {
  LoadResult result;
  for (int i = 1; i <= 1000; ++i) result.latency_ns.Record(i * 1'000'000);
  result.ok = 1000;
  result.failed = 3;
  result.errors[absl::StatusCode::kUnavailable] = {3, "a \"full\" queue"};
  result.span_seconds = 10;
  result.response_bytes = 10 << 20;
  const LoadSetting setting = {
      .target = "127.0.0.1:5", .work = "B1", .in_flight = 8, .connections = 2};
  EXPECT_THAT(ReportText(setting, result),
              AllOf(HasSubstr("8 in flight over 2 connections to 127.0.0.1:5"),
                    HasSubstr("100.0 answers/s"), HasSubstr("1.00 MiB/s"),
                    HasSubstr("p99.9 999ms"),
                    HasSubstr("3 x UNAVAILABLE: a \"full\" queue")));
  google::protobuf::Struct json;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(
                  ReportJson(setting, result), &json)
                  .ok());
  const auto& fields = json.fields();
  EXPECT_EQ(fields.at("schema").string_value(), "attnctl.load/1");
  EXPECT_EQ(fields.at("answers_per_second").number_value(), 100);
  EXPECT_TRUE(fields.at("valid").bool_value());
  const auto& latency = fields.at("latency_seconds").struct_value().fields();
  EXPECT_NEAR(latency.at("p50").number_value(), 0.5, 0.001);
  EXPECT_EQ(fields.at("errors")
                .struct_value()
                .fields()
                .at("UNAVAILABLE")
                .struct_value()
                .fields()
                .at("example")
                .string_value(),
            "a \"full\" queue");
}

TEST(Report, ARunWithoutAnswersIsInvalid) {
  EXPECT_EQ(Invalidity(LoadResult()), "no call was measured");
  EXPECT_THAT(ReportText({}, LoadResult()), HasSubstr("INVALID"));
}

}  // namespace
}  // namespace attnd::client
