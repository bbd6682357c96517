#include "client/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attnd/rpc/v1/error_details.pb.h"
#include "client/error_details.h"
#include "client/status_from_wire.h"

namespace attnd::client {
namespace {

constexpr char kRetryInfo[] = "type.googleapis.com/google.rpc.RetryInfo";

absl::Status WithRetryInfo(int64_t seconds, int nanos) {
  rpc::v1::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(seconds);
  info.mutable_retry_delay()->set_nanos(nanos);
  absl::Status status = absl::UnavailableError("queue full");
  status.SetPayload(kRetryInfo, absl::Cord(info.SerializeAsString()));
  return status;
}

TEST(RetryWait, IsTheDelayPlusUpToAFifth) {
  const absl::Status status = WithRetryInfo(2, 500'000'000);
  EXPECT_EQ(RetryWait(status, 1, 4, absl::Seconds(60), 0.0),
            absl::Milliseconds(2500));
  EXPECT_EQ(RetryWait(status, 1, 4, absl::Seconds(60), 0.5),
            absl::Milliseconds(2750));
}

TEST(RetryWait, StopsAtTheLastAttempt) {
  const absl::Status status = WithRetryInfo(0, 1);
  EXPECT_TRUE(RetryWait(status, 3, 4, absl::Seconds(60), 0));
  EXPECT_FALSE(RetryWait(status, 4, 4, absl::Seconds(60), 0));
}

TEST(RetryWait, StopsBeforeTheDeadline) {
  const absl::Status status = WithRetryInfo(5, 0);
  EXPECT_TRUE(RetryWait(status, 1, 4, absl::Seconds(5.6), 0.1));
  EXPECT_FALSE(RetryWait(status, 1, 4, absl::Seconds(5.6), 0.99));
  EXPECT_FALSE(RetryWait(status, 1, 4, absl::Seconds(5), 0));
}

TEST(RetryWait, NeedsRetryInfo) {
  EXPECT_FALSE(RetryWait(absl::UnavailableError("no"), 1, 4,
                         absl::InfiniteDuration(), 0));
}

TEST(RetryWait, AnEmptyRetryInfoMeansAtOnce) {
  absl::Status status = absl::UnavailableError("queue full");
  status.SetPayload(kRetryInfo, absl::Cord());
  EXPECT_EQ(RetryWait(status, 1, 4, absl::Seconds(1), 0.5),
            absl::ZeroDuration());
}

TEST(RetryWait, MalformedDelaysForbidRetries) {
  for (const absl::Status& status :
       {WithRetryInfo(-1, 0), WithRetryInfo(0, -1),
        WithRetryInfo(1, 2'000'000'000),
        WithRetryInfo(std::numeric_limits<int64_t>::max(), 0)}) {
    EXPECT_FALSE(RetryWait(status, 1, 4, absl::InfiniteDuration(), 0));
  }
  absl::Status garbage = absl::UnavailableError("queue full");
  garbage.SetPayload(kRetryInfo, absl::Cord("\xff\xff\xff"));
  EXPECT_FALSE(RetryWait(garbage, 1, 4, absl::InfiniteDuration(), 0));
}

TEST(StatusFromWire, KeepsEveryCode) {
  for (int code = 0; code <= 16; ++code) {
    EXPECT_EQ(StatusFromWire(code, "text", "").raw_code(), code);
  }
  EXPECT_TRUE(absl::IsUnknown(StatusFromWire(17, "text", "")));
  EXPECT_TRUE(absl::IsUnknown(StatusFromWire(-1, "text", "")));
}

TEST(StatusFromWire, GarbageDetailsLeaveCodeAndText) {
  const absl::Status status = StatusFromWire(3, "text", "\x01\x02garbage");
  EXPECT_EQ(status, absl::InvalidArgumentError("text"));
}

TEST(StatusFromWire, DetailsOfOneTypeAreJoined) {
  rpc::v1::Status wire;
  for (const char* field : {"query", "key"}) {
    rpc::v1::BadRequest bad;
    bad.add_field_violations()->set_field(field);
    wire.add_details()->set_type_url(
        "type.googleapis.com/google.rpc.BadRequest");
    wire.mutable_details()->rbegin()->set_value(bad.SerializeAsString());
  }
  const ErrorDetails details =
      GetErrorDetails(StatusFromWire(3, "text", wire.SerializeAsString()));
  ASSERT_EQ(details.field_violations.size(), 2u);
  EXPECT_EQ(details.field_violations[1].field, "key");
}

TEST(StatusFromWire, UnknownTypesStayReadableUnderTheirUrl) {
  rpc::v1::Status wire;
  google::protobuf::Any* any = wire.add_details();
  any->set_type_url("type.example/other.Thing");
  any->set_value("bytes");
  const absl::Status status =
      StatusFromWire(13, "text", wire.SerializeAsString());
  EXPECT_EQ(status.GetPayload("type.example/other.Thing"), absl::Cord("bytes"));
}

TEST(ErrorDetails, ReadsQuotaAndResource) {
  rpc::v1::QuotaFailure quota;
  quota.add_violations()->set_subject("tenant:alpha");
  rpc::v1::ResourceInfo resource;
  resource.set_resource_type("encoding");
  resource.set_resource_name("ropee");
  absl::Status status = absl::NotFoundError("no such encoding");
  status.SetPayload("type.googleapis.com/google.rpc.QuotaFailure",
                    absl::Cord(quota.SerializeAsString()));
  status.SetPayload("type.googleapis.com/google.rpc.ResourceInfo",
                    absl::Cord(resource.SerializeAsString()));
  const ErrorDetails details = GetErrorDetails(status);
  EXPECT_EQ(details.quota_violations.at(0).subject, "tenant:alpha");
  ASSERT_TRUE(details.resource);
  EXPECT_EQ(details.resource->name, "ropee");
}

TEST(ErrorDetails, OkHasNone) {
  EXPECT_FALSE(GetErrorDetails(absl::OkStatus()).retry_delay);
}

}  // namespace
}  // namespace attnd::client
