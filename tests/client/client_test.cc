#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "attnd/rpc/v1/error_details.pb.h"
#include "client/error_details.h"
#include "client/request.h"
#include "tests/client/stub_service.h"

namespace attnd::client {
namespace {

using ::testing::HasSubstr;

Client Connect(const StubService& stub, ClientOptions options = {}) {
  options.endpoints = {stub.address()};
  absl::StatusOr<Client> client = Client::Create(std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

grpc::Status QueueFull(absl::Duration delay) {
  return Refusal(grpc::StatusCode::UNAVAILABLE, "queue full",
                 {RetryAfter(delay)});
}

TEST(Client, ReturnsTheAnswer) {
  StubService stub;
  stub.on_attend = [](int, const v1::AttendRequest& request,
                      v1::AttendResponse* response) {
    response->set_request_id(request.request_id());
    return grpc::Status::OK;
  };
  v1::AttendRequest request;
  request.set_request_id("one");
  CallReport report;
  const auto answer = Connect(stub).Attend(request, {.report = &report});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->request_id(), "one");
  EXPECT_EQ(report.attempts, 1);
  EXPECT_EQ(report.waited, absl::ZeroDuration());
}

TEST(Client, RetriesAfterTheDelayThatTheServerNames) {
  constexpr absl::Duration kDelay = absl::Milliseconds(40);
  StubService stub;
  stub.on_attend = [&](int number, const v1::AttendRequest&,
                       v1::AttendResponse*) {
    return number < 2 ? QueueFull(kDelay) : grpc::Status::OK;
  };
  CallReport report;
  const auto answer = Connect(stub).Attend({}, {.report = &report});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(report.attempts, 3);
  EXPECT_GE(report.waited, 2 * kDelay);
  EXPECT_LE(report.waited, 2 * kDelay * 1.2);
  const std::vector<Arrival> arrivals = stub.arrivals();
  ASSERT_EQ(arrivals.size(), 3u);
  for (int i : {1, 2}) {
    EXPECT_GE(absl::FromChrono(arrivals[i].time - arrivals[i - 1].time),
              kDelay);
  }
}

TEST(Client, TellsTheServerWhichAttemptThisIs) {
  StubService stub;
  stub.on_attend = [](int number, const v1::AttendRequest&,
                      v1::AttendResponse*) {
    return number < 2 ? QueueFull(absl::ZeroDuration()) : grpc::Status::OK;
  };
  ASSERT_TRUE(Connect(stub).Attend({}).ok());
  std::vector<std::string> previous;
  for (const Arrival& arrival : stub.arrivals()) {
    previous.push_back(arrival.previous_attempts);
  }
  EXPECT_THAT(previous, ::testing::ElementsAre("", "1", "2"));
}

TEST(Client, NeverRetriesWithoutRetryInfo) {
  for (int code = 1; code <= 16; ++code) {
    StubService stub;
    stub.on_attend = [&](int, const v1::AttendRequest&, v1::AttendResponse*) {
      return Refusal(static_cast<grpc::StatusCode>(code), "no");
    };
    const auto answer = Connect(stub).Attend({});
    EXPECT_EQ(static_cast<int>(answer.status().code()), code);
    EXPECT_EQ(answer.status().message(), "no");
    EXPECT_EQ(stub.arrivals().size(), 1u) << "code " << code;
  }
}

TEST(Client, GivesUpAfterMaxAttemptsWithTheRefusal) {
  StubService stub;
  stub.on_attend = [](int, const v1::AttendRequest&, v1::AttendResponse*) {
    return QueueFull(absl::Milliseconds(1));
  };
  const Client client = Connect(stub, {.max_attempts = 3});
  EXPECT_TRUE(absl::IsUnavailable(client.Attend({}).status()));
  EXPECT_EQ(stub.arrivals().size(), 3u);
  EXPECT_TRUE(
      absl::IsUnavailable(client.Attend({}, {.max_attempts = 1}).status()));
  EXPECT_EQ(stub.arrivals().size(), 4u);
}

TEST(Client, DoesNotWaitBeyondTheDeadline) {
  StubService stub;
  stub.on_attend = [](int, const v1::AttendRequest&, v1::AttendResponse*) {
    return QueueFull(absl::Hours(1));
  };
  const auto started = std::chrono::steady_clock::now();
  const auto answer = Connect(stub).Attend({}, {.timeout = absl::Seconds(30)});
  // The refusal says more than a deadline would, and at once.
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_LT(std::chrono::steady_clock::now() - started,
            std::chrono::seconds(10));
}

TEST(Client, DeadlineEndsACall) {
  StubService stub;
  stub.delay = absl::Milliseconds(500);
  const auto answer =
      Connect(stub).Attend({}, {.timeout = absl::Milliseconds(20)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
}

TEST(Client, DetailsOfARefusalAreReadable) {
  rpc::v1::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field("key.shape");
  violation->set_description("[1,1,2,3], expected 4 heads");
  rpc::v1::ErrorInfo info;
  info.set_reason("SHAPE");
  (*info.mutable_metadata())["heads"] = "4";
  StubService stub;
  stub.on_attend = [&](int, const v1::AttendRequest&, v1::AttendResponse*) {
    return Refusal(grpc::StatusCode::INVALID_ARGUMENT, "key.shape: wrong",
                   {DetailOf("BadRequest", bad), DetailOf("ErrorInfo", info)});
  };
  const absl::Status status = Connect(stub).Attend({}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  const ErrorDetails details = GetErrorDetails(status);
  ASSERT_EQ(details.field_violations.size(), 1u);
  EXPECT_EQ(details.field_violations[0].field, "key.shape");
  EXPECT_EQ(details.reason, "SHAPE");
  EXPECT_EQ(details.metadata.at("heads"), "4");
  EXPECT_FALSE(details.retry_delay);
}

// Case C18: the 4 MiB default of gRPC must bite in no direction.
TEST(Client, CarriesMessagesOf100MiBBothWays) {
  StubService stub;
  stub.on_attend = [](int, const v1::AttendRequest& request,
                      v1::AttendResponse* response) {
    *response->mutable_output() = request.query();
    return grpc::Status::OK;
  };
  v1::AttendRequest request;
  std::string& data = *request.mutable_query()->mutable_data();
  data.resize(100 << 20);
  std::iota(data.begin(), data.end(), 0);
  const auto answer = Connect(stub).Attend(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->output().data() == data);
}

TEST(Client, RefusesARequestAboveItsOwnLimitWithBothFigures) {
  StubService stub;
  const Client client = Connect(stub, {.message_bytes = 1000});
  v1::AttendRequest request;
  request.mutable_query()->set_data(std::string(2000, 'x'));
  const absl::Status status = client.Attend(request).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 1000"));
  EXPECT_TRUE(stub.arrivals().empty());
}

TEST(Client, AnUnreachableServerIsUnavailableAtOnce) {
  absl::StatusOr<Client> client =
      Client::Create({.endpoints = {"127.0.0.1:1"}});
  ASSERT_TRUE(client.ok());
  EXPECT_TRUE(absl::IsUnavailable(client->Attend({}).status()));
  EXPECT_FALSE(client->WaitUntilReady(absl::Milliseconds(1)));
}

TEST(Client, SendsMetadataWithEveryCall) {
  StubService stub;
  const Client client =
      Connect(stub, {.metadata = {{"x-attnd-tenant", "alpha"}}});
  ASSERT_TRUE(client.Attend({}).ok());
  EXPECT_EQ(stub.arrivals()[0].tenant, "alpha");
}

TEST(Client, SpreadsCallsOverAllEndpoints) {
  StubService one;
  StubService two;
  absl::StatusOr<Client> client =
      Client::Create({.endpoints = {one.address(), two.address()}});
  ASSERT_TRUE(client.ok()) << client.status();
  // round_robin uses what is ready; the second connection may still be on its
  // way when the first call starts.
  for (int i = 0; i < 10'000 && two.arrivals().empty(); ++i) {
    ASSERT_TRUE(client->Attend({}).ok());
  }
  while (one.arrivals().empty()) ASSERT_TRUE(client->Attend({}).ok());
  EXPECT_FALSE(two.arrivals().empty());
}

TEST(Client, LeavesOutAnEndpointThatIsNotServing) {
  StubService stub;
  stub.SetServing(false);
  EXPECT_TRUE(absl::IsUnavailable(Connect(stub).Attend({}).status()));
  EXPECT_TRUE(Connect(stub, {.health_checked = false}).Attend({}).ok());
}

TEST(Client, ChecksHealthWhateverItIs) {
  StubService stub;
  const Client client = Connect(stub);
  absl::StatusOr<Health> health = client.CheckHealth();
  ASSERT_TRUE(health.ok()) << health.status();
  EXPECT_EQ(*health, Health::kServing);
  stub.SetServing(false);
  EXPECT_EQ(client.CheckHealth().value_or(Health::kUnknown),
            Health::kNotServing);
  EXPECT_TRUE(absl::IsNotFound(client.CheckHealth("nobody").status()));
}

TEST(Client, WatchesHealthChange) {
  StubService stub;
  std::vector<Health> seen;
  const absl::Status status = Connect(stub).WatchHealth("", [&](Health health) {
    seen.push_back(health);
    if (seen.size() == 1) stub.SetServing(false);
    return seen.size() < 2;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(seen,
              ::testing::ElementsAre(Health::kServing, Health::kNotServing));
}

TEST(Client, WatchOfAnUnknownServiceSaysSo) {
  StubService stub;
  Health seen = Health::kServing;
  const absl::Status status =
      Connect(stub).WatchHealth("nobody", [&](Health health) {
        seen = health;
        return false;
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen, Health::kNoService);
}

TEST(Client, OtherMethodsReachTheServer) {
  StubService stub;
  stub.on_info = [](const v1::GetServerInfoRequest&,
                    v1::GetServerInfoResponse* response) {
    response->set_version("1.2.3");
    return grpc::Status::OK;
  };
  const Client client = Connect(stub);
  EXPECT_EQ(client.GetServerInfo()->version(), "1.2.3");
  EXPECT_TRUE(client.ListEncodings().ok());
  EXPECT_TRUE(absl::IsUnimplemented(client.Estimate({}).status()));
}

TEST(ClientOptions, WrongOnesAreNamed) {
  const auto refusal = [](ClientOptions options) {
    return std::string(Client::Create(options).status().message());
  };
  EXPECT_THAT(refusal({.endpoints = {}}), HasSubstr("endpoints"));
  EXPECT_THAT(refusal({.message_bytes = int64_t{1} << 31}),
              HasSubstr("message_bytes: 2147483648"));
  EXPECT_THAT(refusal({.timeout = absl::ZeroDuration()}), HasSubstr("timeout"));
  EXPECT_THAT(refusal({.max_attempts = 0}), HasSubstr("max_attempts: 0"));
  EXPECT_THAT(refusal({.tls = TlsOptions{.private_key = "key"}}),
              HasSubstr("belong together"));
  EXPECT_THAT(refusal({.keepalive_time = absl::Seconds(10)}),
              HasSubstr("keepalive_time: 10s"));
  EXPECT_THAT(refusal({.endpoints = {"a:1", "b:2"}}), HasSubstr("a:1,b:2"));
  EXPECT_EQ(refusal({.endpoints = {"[::1]:1", "[::2]:2"}}), "");
}

}  // namespace
}  // namespace attnd::client
