#include "client/service_config.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <string>

#include "attnd/v1/attention.grpc.pb.h"
#include "client/client.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "tests/client/stub_service.h"

namespace attnd::client {
namespace {

using ::testing::SizeIs;

google::protobuf::Struct Parse(const std::string& json) {
  google::protobuf::Struct parsed;
  const auto status =
      google::protobuf::util::JsonStringToMessage(json, &parsed);
  EXPECT_TRUE(status.ok()) << json;
  return parsed;
}

const google::protobuf::Struct& FirstMethod(
    const google::protobuf::Struct& config) {
  return config.fields()
      .at("methodConfig")
      .list_value()
      .values(0)
      .struct_value();
}

// Three tensors of 1 MiB, for which gRPC's own buffer of 256 KiB is too small.
v1::AttendRequest LargeRequest() {
  v1::AttendRequest request;
  for (v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(),
                             request.mutable_value()}) {
    tensor->set_data(std::string(1 << 20, 'x'));
  }
  return request;
}

// A call as any gRPC client makes it that reads the shipped file.
grpc::Status CallWithShippedConfig(const StubService& stub,
                                   bool raise_retry_buffer) {
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(ShippedServiceConfig());
  if (raise_retry_buffer) {
    arguments.SetInt(GRPC_ARG_PER_RPC_RETRY_BUFFER_SIZE, 128 << 20);
  }
  const auto channel = grpc::CreateCustomChannel(
      stub.address(), grpc::InsecureChannelCredentials(), arguments);
  grpc::ClientContext context;
  v1::AttendResponse response;
  return v1::AttentionScoring::NewStub(channel)->Attend(
      &context, LargeRequest(), &response);
}

TEST(ServiceConfig, NamesOurServiceAndTheLibrarysNumberOfAttempts) {
  const auto config = Parse(ShippedServiceConfig());
  const auto& method = FirstMethod(config);
  EXPECT_EQ(method.fields()
                .at("name")
                .list_value()
                .values(0)
                .struct_value()
                .fields()
                .at("service")
                .string_value(),
            v1::AttentionScoring::service_full_name());
  EXPECT_EQ(method.fields()
                .at("retryPolicy")
                .struct_value()
                .fields()
                .at("maxAttempts")
                .number_value(),
            ClientOptions().max_attempts);
}

TEST(ServiceConfig, TheLibraryBalancesAndChecksHealthByIt) {
  const auto shipped = Parse(ShippedServiceConfig());
  const auto ours = Parse(ChannelServiceConfig(true));
  EXPECT_THAT(ours.fields(), SizeIs(2));
  for (const auto& [name, value] : ours.fields()) {
    EXPECT_EQ(value.DebugString(), shipped.fields().at(name).DebugString());
  }
  EXPECT_THAT(Parse(ChannelServiceConfig(false)).fields(), SizeIs(1));
}

TEST(ServiceConfig, LargeRequestsAreRetriedWhenTheServerSays) {
  StubService stub;
  stub.pushback_ms = "30";
  stub.on_attend = [](int number, const v1::AttendRequest&,
                      v1::AttendResponse*) {
    return number < 2 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "full")
                      : grpc::Status::OK;
  };
  const grpc::Status status = CallWithShippedConfig(stub, true);
  EXPECT_TRUE(status.ok()) << status.error_message();
  const auto arrivals = stub.arrivals();
  ASSERT_THAT(arrivals, SizeIs(3));
  for (int i : {1, 2}) {
    EXPECT_GE(arrivals[i].time - arrivals[i - 1].time,
              std::chrono::milliseconds(30));
  }
}

TEST(ServiceConfig, WithoutARaisedBufferTheyAreNot) {
  StubService stub;
  stub.on_attend = [](int, const v1::AttendRequest&, v1::AttendResponse*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "full");
  };
  EXPECT_EQ(CallWithShippedConfig(stub, false).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(stub.arrivals(), SizeIs(1));
}

}  // namespace
}  // namespace attnd::client
