// AttendStream: many independent requests on one stream.
#include <gmock/gmock.h>

#include <future>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/integration/service_test.h"
#include "tests/integration/slow_work.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using ::testing::HasSubstr;

v1::AttendStreamRequest Message(const std::string& id, int seed = 1) {
  v1::AttendStreamRequest message;
  *message.mutable_request() =
      MakeRequest({.queries = 2 + seed, .keys = 3 + seed}, seed);
  message.mutable_request()->set_request_id(id);
  return message;
}

class StreamTest : public ServiceTest {
 protected:
  void StartSlow(const std::string& yaml = "") {
    Start("workers: 1\n" + yaml, work_.Function());
  }
  void TearDown() override {
    work_.Release(1 << 20);
    if (server_ == nullptr) return;
    EXPECT_TRUE(EventuallyMetric("attnd_streams_open", 0));
    EXPECT_TRUE(EventuallyMetric("attnd_inflight_requests", 0));
    EXPECT_TRUE(EventuallyMetric("attnd_queue_bytes", 0));
  }

  SlowWork work_;
};

TEST_F(StreamTest, AnswersAreThoseOfAttendMatchedById) {
  Start();
  std::map<std::string, std::string> expected;
  auto stream = client_->AttendStream();
  for (int i = 0; i < 40; ++i) {
    const v1::AttendStreamRequest message = Message(absl::StrCat("r", i), i);
    const auto alone = client_->Attend(message.request());
    ASSERT_TRUE(alone.ok()) << alone.message;
    expected[message.request().request_id()] = alone.reply.output().data();
  }
  auto sent = std::async(std::launch::async, [&] {
    for (int i = 0; i < 40; ++i) {
      EXPECT_TRUE(stream->Send(Message(absl::StrCat("r", i), i)));
    }
    stream->CloseSending();
  });
  v1::AttendStreamResponse response;
  while (stream->Receive(response)) {
    const auto it = expected.find(response.request_id());
    ASSERT_NE(it, expected.end()) << response.request_id();
    EXPECT_TRUE(response.has_response()) << EndOf(response).message;
    EXPECT_EQ(response.response().request_id(), response.request_id());
    EXPECT_EQ(response.response().output().data(), it->second);
    expected.erase(it);
  }
  sent.wait();
  EXPECT_TRUE(expected.empty());
  EXPECT_TRUE(stream->Finish().ok());
  const std::string labels =
      "{grpc_method=\"AttendStream\",grpc_service=\"attnd.v1."
      "AttentionScoring\",grpc_type=\"bidi_stream\"}";
  EXPECT_EQ(Metric("grpc_server_msg_received_total" + labels), 40);
  EXPECT_EQ(Metric("grpc_server_msg_sent_total" + labels), 40);
  EXPECT_EQ(Metric("grpc_server_started_total" + labels), 1);
}

TEST_F(StreamTest, ABadRequestIsAnsweredAndTheStreamGoesOn) {
  Start();
  auto stream = client_->AttendStream();
  v1::AttendStreamRequest bad = Message("bad");
  bad.mutable_request()->mutable_key()->clear_data();
  v1::AttendStreamResponse response;
  ASSERT_TRUE(stream->Send(bad));
  ASSERT_TRUE(stream->Receive(response));
  EXPECT_EQ(response.request_id(), "bad");
  EXPECT_EQ(EndOf(response).code, kInvalidArgument);
  EXPECT_EQ(EndOf(response).Fields(), "key.data");
  EXPECT_EQ(EndOf(response).Reason(), "INVALID");
  ASSERT_TRUE(stream->Send(Message("")));
  ASSERT_TRUE(stream->Receive(response));
  EXPECT_EQ(EndOf(response).Fields(), "request.request_id");
  ASSERT_TRUE(stream->Send(Message("good")));
  ASSERT_TRUE(stream->Receive(response));
  EXPECT_EQ(response.request_id(), "good");
  EXPECT_TRUE(response.has_response());
  stream->CloseSending();
  EXPECT_FALSE(stream->Receive(response));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Metric("attnd_rejected_total{reason=\"invalid\"}"), 2);
}

TEST_F(StreamTest, AnIdInFlightIsRefusedAndTheFirstIsAnswered) {
  StartSlow();
  auto stream = client_->AttendStream();
  ASSERT_TRUE(stream->Send(Message("same")));
  ASSERT_TRUE(EventuallyMetric("attnd_requests_running", 1));
  ASSERT_TRUE(stream->Send(Message("same")));
  v1::AttendStreamResponse response;
  ASSERT_TRUE(stream->Receive(response));
  // Both have one id: the reason tells which of the two this is about.
  EXPECT_EQ(response.request_id(), "same");
  EXPECT_EQ(EndOf(response).code, kInvalidArgument);
  EXPECT_EQ(EndOf(response).Reason(), "DUPLICATE_ID");
  EXPECT_EQ(EndOf(response).Fields(), "request.request_id");
  EXPECT_THAT(EndOf(response).message, HasSubstr("in flight"));
  work_.Release(1);
  ASSERT_TRUE(stream->Receive(response));
  EXPECT_TRUE(response.has_response());
  EXPECT_EQ(response.request_id(), "same");
  // Answered, it is free.
  work_.Release(1);
  ASSERT_TRUE(stream->Send(Message("same")));
  ASSERT_TRUE(stream->Receive(response));
  EXPECT_TRUE(response.has_response());
  EXPECT_EQ(Metric("attnd_rejected_total{reason=\"duplicate_id\"}"), 1);
  stream->CloseSending();
  EXPECT_FALSE(stream->Receive(response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamTest, NoMoreThanTheLimitIsInFlight) {
  StartSlow("limits: {stream_inflight: 3}\n");
  auto stream = client_->AttendStream();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(stream->Send(Message(absl::StrCat("r", i))));
  }
  stream->CloseSending();
  ASSERT_TRUE(EventuallyMetric("attnd_inflight_requests", 3));
  int answers = 0;
  v1::AttendStreamResponse response;
  for (int i = 0; i < 8; ++i) {
    EXPECT_LE(Metric("attnd_inflight_requests"), 3);
    work_.Release(1);
    ASSERT_TRUE(stream->Receive(response));
    answers += response.has_response();
  }
  EXPECT_EQ(answers, 8);
  EXPECT_FALSE(stream->Receive(response));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamTest, CancellationEndsEveryRequestOfTheStream) {
  StartSlow();
  auto stream = client_->AttendStream();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(stream->Send(Message(absl::StrCat("r", i))));
  }
  ASSERT_TRUE(EventuallyMetric("attnd_inflight_requests", 5));
  ASSERT_TRUE(EventuallyMetric("attnd_requests_running", 1));
  stream->Cancel();
  EXPECT_TRUE(EventuallyMetric("attnd_inflight_requests", 0));
  EXPECT_EQ(work_.started(), 1);
  EXPECT_EQ(Metric("attnd_cancelled_total{stage=\"queue\"}"), 4);
  EXPECT_EQ(Metric("attnd_cancelled_total{stage=\"compute\"}"), 1);
  v1::AttendStreamResponse response;
  EXPECT_FALSE(stream->Receive(response));
  EXPECT_EQ(stream->Finish().code, kCancelled);
}

TEST_F(StreamTest, DrainAnswersWhatIsInFlightAndEndsTheStream) {
  StartSlow();
  auto stream = client_->AttendStream();
  ASSERT_TRUE(stream->Send(Message("first")));
  ASSERT_TRUE(EventuallyMetric("attnd_requests_running", 1));
  // gRPC closes a connection with its last call, and a client that writes to it
  // at that moment does not read any more: another call keeps it open.
  auto other = std::async(std::launch::async,
                          [&] { return client_->Attend(MakeRequest({})); });
  ASSERT_TRUE(EventuallyMetric("attnd_requests_waiting", 1));
  auto drained = std::async(std::launch::async, [&] { server_->Drain(); });
  ASSERT_TRUE(EventuallyMetric("attnd_drain_state", 2));
  work_.Release(1);
  v1::AttendStreamResponse response;
  ASSERT_TRUE(stream->Receive(response));
  EXPECT_TRUE(response.has_response()) << EndOf(response).message;
  EXPECT_FALSE(stream->Receive(response));
  const CallEnd end = stream->Finish();
  EXPECT_EQ(end.code, kUnavailable);
  EXPECT_EQ(end.Reason(), "DRAINING") << end.message;
  EXPECT_TRUE(end.Retryable());
  work_.Release(1);
  EXPECT_TRUE(other.get().ok());
  EXPECT_EQ(drained.wait_for(std::chrono::seconds(20)),
            std::future_status::ready);
}

}  // namespace
}  // namespace attnd::testing
