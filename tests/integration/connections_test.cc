// Clients that are slow, half dead, or too many.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/raw_connection.h"
#include "tests/integration/service_test.h"
#include "tests/integration/slow_work.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

constexpr char kBytes[] = "attnd_queue_bytes";
constexpr char kConnections[] = "attnd_connections";

class ConnectionsTest : public ServiceTest {
 protected:
  // Sends a whole request on a raw connection and waits for the reply to begin.
  int CallRaw(const v1::AttendRequest& request, RawConnection& connection) {
    const std::string message = request.SerializeAsString();
    const int stream =
        connection.BeginAttend(static_cast<int64_t>(message.size()));
    size_t sent = 0;
    while (sent < message.size() && connection.Pump()) {
      sent += connection.Send(stream, message.substr(sent));
    }
    connection.CloseSending(stream);
    connection.PumpUntilAnswered(stream);
    return stream;
  }

  // Says a message of `all` bytes is coming and sends so much of it.
  static int SendPart(RawConnection& connection, int64_t all, int64_t part,
                      const char* method = "Attend") {
    const int stream = connection.Begin(method, all);
    SendMore(connection, {stream}, part);
    return stream;
  }
  // Sends so much on each of the streams in turn, until one ends.
  static void SendMore(RawConnection& connection,
                       const std::vector<int>& streams, int64_t part) {
    const std::string piece(1 << 16, 'x');
    for (const int stream : streams) {
      for (int64_t left = part; left > 0;) {
        if (connection.ended() > 0 || !connection.Pump()) return;
        if (connection.unsent() > 1 << 20) continue;
        left -= connection.Send(stream, piece.substr(0, left));
      }
    }
    while (connection.unsent() > 0 && connection.Pump()) {
    }
  }
  // Whether so many calls are known: from then on what arrives for them is
  // counted.
  bool CallsStart(const char* method, const char* type, double calls) const {
    return EventuallyMetric(
        absl::StrCat("grpc_server_started_total{grpc_method=\"", method,
                     "\",grpc_service=\"attnd.v1.AttentionScoring\","
                     "grpc_type=\"",
                     type, "\"}"),
        calls);
  }
  bool AttendsStart(double calls) const {
    return CallsStart("Attend", "unary", calls);
  }
  static void PumpUntilEnded(RawConnection& connection, int streams) {
    while (connection.ended() < streams && connection.Pump()) {
    }
    EXPECT_EQ(connection.ended(), streams);
  }

  // A few KiB that ask for 1 MiB.
  static v1::AttendRequest LargeReply() {
    v1::AttendRequest request =
        MakeRequest({.queries = 512, .keys = 512, .dim = 1, .value_dim = 1});
    request.add_outputs(v1::OUTPUT_SCORES);
    return request;
  }
};

TEST_F(ConnectionsTest, AReplyThatNobodyReadsStaysCharged) {
  Start();
  {
    RawConnection reader(server_->addresses()[0]);
    CallRaw(LargeReply(), reader);
    EXPECT_TRUE(EventuallyMetric("attnd_requests_running", 0));
    EXPECT_GE(Metric(kBytes), 1 << 20);
    EXPECT_TRUE(client_->Attend(MakeRequest({})).ok());
  }
  EXPECT_TRUE(EventuallyMetric(kBytes, 0)) << "gone with its connection";
}

TEST_F(ConnectionsTest, AReplyThatNobodyReadsEndsWithTheLongestDeadline) {
  Start("limits: {deadline_seconds: 1}\n");
  RawConnection reader(server_->addresses()[0]);
  CallRaw(LargeReply(), reader);
  EXPECT_TRUE(EventuallyMetric(kBytes, 0));
  while (reader.ended() == 0 && reader.Pump()) {
  }
  EXPECT_EQ(reader.ended(), 1);
}

TEST_F(ConnectionsTest, AStreamThatNobodyReadsEndsWithTheLongestDeadline) {
  Start("limits: {deadline_seconds: 1}\n");
  RawConnection reader(server_->addresses()[0]);
  v1::AttendStreamRequest message;
  *message.mutable_request() = LargeReply();
  message.mutable_request()->set_request_id("r");
  const std::string bytes = message.SerializeAsString();
  const int stream =
      reader.Begin("AttendStream", static_cast<int64_t>(bytes.size()));
  size_t sent = 0;
  while (sent < bytes.size() && reader.Pump()) {
    sent += reader.Send(stream, bytes.substr(sent));
  }
  reader.PumpUntilAnswered(stream);
  while (reader.ended() == 0 && reader.Pump()) {
  }
  EXPECT_EQ(reader.ended(), 1);
  EXPECT_TRUE(EventuallyMetric(kBytes, 0));
  EXPECT_TRUE(EventuallyMetric("attnd_streams_open", 0));
}

TEST_F(ConnectionsTest, HalfAMessageHarmsNobody) {
  Start();
  const std::string half(30000, 'x');
  {
    RawConnection leaver(server_->addresses()[0]);
    RawConnection resetter(server_->addresses()[0]);
    RawConnection waiter(server_->addresses()[0]);
    for (RawConnection* each : {&leaver, &resetter, &waiter}) {
      const int stream = each->BeginAttend(60000);
      EXPECT_EQ(each->Send(stream, half), 30000);
      while (each->unsent() > 0) ASSERT_TRUE(each->Pump());
    }
    EXPECT_TRUE(EventuallyMetric(kConnections, 3));
    leaver.Abort();
    resetter.Reset(1);
    while (resetter.unsent() > 0) ASSERT_TRUE(resetter.Pump());
    EXPECT_TRUE(client_->Attend(MakeRequest({})).ok());
  }
  EXPECT_TRUE(EventuallyMetric(kConnections, 1)) << "the test's own";
  EXPECT_TRUE(EventuallyMetric(
      "grpc_server_handled_total{grpc_code=\"Canceled\",grpc_method=\"Attend\","
      "grpc_service=\"attnd.v1.AttentionScoring\",grpc_type=\"unary\"}",
      3));
  EXPECT_EQ(Metric("attnd_inflight_requests"), 0);
}

// Not cancelled by anybody, nor too large.
TEST_F(ConnectionsTest, HalfAMessageEndsWithTheDeadlineOfItsCall) {
  Start();
  for (const auto& [method, type] :
       {std::pair("Attend", "unary"), {"AttendStream", "bidi_stream"}}) {
    RawConnection waiter(server_->addresses()[0]),
        silent(server_->addresses()[0]);
    const std::map<std::string, std::string> soon = {{"grpc-timeout", "300m"}};
    const int half = waiter.Begin(method, 60000, soon);
    EXPECT_EQ(waiter.Send(half, std::string(30000, 'x')), 30000);
    silent.Begin(method, 60000, soon);
    PumpUntilEnded(waiter, 1);
    PumpUntilEnded(silent, 1);
    const auto ended = [&, name = method, of = type](const char* code) {
      return absl::StrCat("grpc_server_handled_total{grpc_code=\"", code,
                          "\",grpc_method=\"", name,
                          "\",grpc_service=\"attnd.v1.AttentionScoring\","
                          "grpc_type=\"",
                          of, "\"}");
    };
    EXPECT_TRUE(EventuallyMetric(ended("DeadlineExceeded"), 2)) << method;
    EXPECT_EQ(Metric(ended("Canceled")), 0) << method;
    EXPECT_EQ(Metric(ended("OK")), 0) << method;
  }
  EXPECT_EQ(Metric("attnd_rejected_total{reason=\"too_large\"}"), 0);
}

// An AttendStream whose message gRPC does not take is not one that ended well.
TEST_F(ConnectionsTest, AStreamThatGrpcEndsIsNotOk) {
  Start("limits: {message_bytes: 100000}\n");
  RawConnection sender(server_->addresses()[0]);
  SendPart(sender, 200000, 200000, "AttendStream");
  PumpUntilEnded(sender, 1);
  const auto ended = [](const char* code) {
    return absl::StrCat("grpc_server_handled_total{grpc_code=\"", code,
                        "\",grpc_method=\"AttendStream\",grpc_service=\"attnd."
                        "v1.AttentionScoring\",grpc_type=\"bidi_stream\"}");
  };
  EXPECT_TRUE(EventuallyMetric(ended("Canceled"), 1));
  EXPECT_EQ(Metric(ended("OK")), 0);
}

// gRPC's conversion to a time overflows after 292 years.
TEST_F(ConnectionsTest, ADeadlineInThousandsOfYearsHasNotPassed) {
  Start();
  const std::string message = MakeRequest({}).SerializeAsString();
  for (const char* timeout : {"2562047H", "2562048H", "99999999H"}) {
    RawConnection patient(server_->addresses()[0]);
    const int stream =
        patient.Begin("Attend", static_cast<int64_t>(message.size()),
                      {{"grpc-timeout", timeout}});
    patient.Send(stream, message);
    patient.CloseSending(stream);
    PumpUntilEnded(patient, 1);
  }
  EXPECT_TRUE(EventuallyMetric(
      "grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Attend\","
      "grpc_service=\"attnd.v1.AttentionScoring\",grpc_type=\"unary\"}",
      3));
}

TEST_F(ConnectionsTest, HalfAMessageEndsWithTheLongestDeadline) {
  Start("limits: {deadline_seconds: 1}\n");
  RawConnection waiter(server_->addresses()[0]),
      silent(server_->addresses()[0]);
  SendPart(waiter, 60000, 30000);
  SendPart(silent, 60000, 0);
  PumpUntilEnded(waiter, 1);
  PumpUntilEnded(silent, 1);
  EXPECT_TRUE(EventuallyMetric("attnd_rejected_total{reason=\"hopeless\"}", 2));
  EXPECT_TRUE(client_->Attend(MakeRequest({})).ok());
}

TEST_F(ConnectionsTest, WhoHoldsMostOfTooManyHalvesIsEnded) {
  Start("limits: {receive_bytes: 16777216, message_bytes: 7340032}\n");
  RawConnection modest(server_->addresses()[0]);
  const std::string message = MakeRequest({.keys = 999}).SerializeAsString();
  const auto size = static_cast<int64_t>(message.size());
  const int half = modest.BeginAttend(size);
  const int64_t sent = modest.Send(half, message.substr(0, size / 2));
  while (modest.unsent() > 0) ASSERT_TRUE(modest.Pump());
  ASSERT_TRUE(AttendsStart(1));
  for (const auto& [method, type, before] :
       {std::tuple("Attend", "unary", 1),
        std::tuple("AttendStream", "bidi_stream", 0)}) {
    RawConnection hog(server_->addresses()[0]);
    std::vector<int> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(hog.Begin(method, 7 << 20));
    while (hog.unsent() > 0) ASSERT_TRUE(hog.Pump());
    ASSERT_TRUE(CallsStart(method, type, before + 4));
    SendMore(hog, streams, 4 << 20);
    PumpUntilEnded(hog, 4);
  }
  EXPECT_TRUE(Eventually([&] {
    return Metric("attnd_receive_bytes") <= static_cast<double>(size);
  }));
  modest.Send(half, message.substr(sent));
  modest.CloseSending(half);
  modest.PumpUntilAnswered(half);
  EXPECT_TRUE(EventuallyMetric("attnd_receive_bytes", 0));
  EXPECT_TRUE(EventuallyMetric("attnd_streams_open", 0));
}

TEST_F(ConnectionsTest, TheGreatestMessageArrivesHoweverSmallTheLimitIs) {
  Start("limits: {receive_bytes: 1, message_bytes: 4194304}\n");
  const std::string message =
      MakeRequest({.keys = 9999, .dim = 50, .value_dim = 50})
          .SerializeAsString();
  const size_t size = message.size();
  ASSERT_GT(size, 3 << 20);
  ASSERT_LE(size, 4 << 20);
  RawConnection slow(server_->addresses()[0]);
  const int call = slow.BeginAttend(static_cast<int64_t>(size));
  while (slow.unsent() > 0) ASSERT_TRUE(slow.Pump());
  ASSERT_TRUE(AttendsStart(1));
  size_t sent = 0;
  while (sent + 1 < size && slow.Pump()) {
    const size_t now = std::min<size_t>(1 << 16, size - 1 - sent);
    sent += slow.Send(call, message.substr(sent, now));
  }
  while (slow.unsent() > 0) ASSERT_TRUE(slow.Pump());
  EXPECT_TRUE(Eventually([&] {
    return Metric("attnd_receive_bytes") >= static_cast<double>(size) / 2;
  }));
  slow.Send(call, message.substr(sent));
  slow.CloseSending(call);
  slow.PumpUntilAnswered(call);
  EXPECT_TRUE(EventuallyMetric("attnd_tokens_total", 2));
}

TEST_F(ConnectionsTest, DrainingDoesNotWaitForHalfAMessage) {
  Start("drain: {delay_seconds: 0, grace_seconds: 1000}\n");
  RawConnection waiter(server_->addresses()[0]);
  SendPart(waiter, 60000, 30000);
  EXPECT_TRUE(AttendsStart(1));
  server_->Drain();
  PumpUntilEnded(waiter, 1);
}

TEST_F(ConnectionsTest, ACallThatEndsInTheMiddleOfItsMessageIsOver) {
  Start();
  RawConnection connection(server_->addresses()[0]);
  connection.CloseSending(SendPart(connection, 60000, 30000));
  PumpUntilEnded(connection, 1);
  EXPECT_TRUE(EventuallyMetric("attnd_rejected_total{reason=\"invalid\"}", 1));
}

// gRPC itself would end all calls of the connection.
TEST_F(ConnectionsTest, TooMuchMetadataHarmsOnlyItsCall) {
  SlowWork work;
  Start("limits: {connections: 100, receive_bytes: 100000000}\n",
        work.Function());
  auto neighbour = client_->StartAttend(MakeRequest({}));
  ASSERT_TRUE(EventuallyMetric("attnd_requests_running", 1));
  const auto call = [&](int64_t bytes) {
    return client_->Attend(MakeRequest({.dim = 0}), kNoDeadline,
                           {{"x-large", std::string(bytes, 'a')}});
  };
  for (const int64_t bytes : {8300, 9000, 70000, 990000}) {
    const auto refused = call(bytes);
    EXPECT_EQ(refused.code, kResourceExhausted) << bytes;
    EXPECT_EQ(refused.Reason(), "TOO_LARGE") << refused.message;
    EXPECT_FALSE(refused.Retryable());
    rpc::v1::ResourceInfo info;
    ASSERT_TRUE(refused.Detail("ResourceInfo", info));
    EXPECT_EQ(info.resource_name(), "metadata_bytes");
  }
  // About the limit, whose exact place depends on what gRPC adds.
  for (int64_t bytes = 7700; bytes < 8300; bytes += 10) {
    const int code = call(bytes).code;
    EXPECT_TRUE(code == kInvalidArgument || code == kResourceExhausted)
        << bytes << ": " << code;
  }
  EXPECT_TRUE(client_->GetServerInfo().ok());
  EXPECT_EQ(Metric("attnd_requests_running"), 1);
  work.Release(1 << 20);
  EXPECT_TRUE(neighbour->Wait().ok()) << neighbour->Wait().message;
}

TEST_F(ConnectionsTest, TooManyAreClosedAndTheOthersServed) {
  Start("limits: {connections: 3}\n");
  ASSERT_TRUE(client_->Attend(MakeRequest({})).ok());
  std::vector<std::unique_ptr<RawConnection>> many;
  for (int i = 0; i < 5; ++i) {
    many.push_back(std::make_unique<RawConnection>(server_->addresses()[0]));
  }
  const std::string refused = "attnd_connections_refused_total";
  EXPECT_TRUE(EventuallyMetric(refused, 3));
  EXPECT_EQ(Metric(kConnections), 3);
  EXPECT_TRUE(client_->Attend(MakeRequest({})).ok());
  TestClient late(server_->addresses()[0]);
  EXPECT_EQ(late.Attend(MakeRequest({}), 2).code, kUnavailable);
  many.clear();
  EXPECT_TRUE(EventuallyMetric(kConnections, 1));
  TestClient again(server_->addresses()[0]);
  EXPECT_TRUE(again.Attend(MakeRequest({})).ok());
}

}  // namespace
}  // namespace attnd::testing
