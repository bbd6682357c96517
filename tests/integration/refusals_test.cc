// What the service does not answer, and what it says instead. After each
// refusal a good request must succeed.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "tests/integration/service_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kEncodings[] = R"(
encodings:
  - {name: alibi, time_unit: 1s, biases: [{alibi: {}}]}
  - {name: rope, time_unit: 1s, blocks: [{rotary: {pair_layout: half_split}}]}
)";

class RefusalsTest : public ServiceTest {
 protected:
  void SetUp() override { Start(kEncodings); }
  void TearDown() override {
    EXPECT_TRUE(client_->Attend(MakeRequest({})).ok());
  }

  // Refuses and stays within the bounds of text.
  Result<v1::AttendResponse> ExpectRefused(const v1::AttendRequest& request,
                                           int code, const std::string& text) {
    auto result = client_->Attend(request);
    EXPECT_EQ(result.code, code) << result.message;
    EXPECT_THAT(result.message, HasSubstr(text));
    EXPECT_LT(result.message.size(), 1024u);
    EXPECT_LT(result.details.ByteSizeLong(), 4096u);
    EXPECT_EQ(result.details.code(), code);
    EXPECT_EQ(result.Retryable(), code == kUnavailable);
    return result;
  }
};

// Numbers of shapes that are trusted.
TEST_F(RefusalsTest, ShapesThatLie) {
  const auto with_key = [](std::vector<int64_t> shape, size_t bytes) {
    v1::AttendRequest request = MakeRequest({});
    v1::Tensor& key = *request.mutable_key();
    key.mutable_shape()->Clear();
    key.mutable_shape()->Add(shape.begin(), shape.end());
    key.set_data(std::string(bytes, '\0'));
    return request;
  };
  ExpectRefused(with_key({1, 1, -1, 4}, 48), kInvalidArgument, "key.shape");
  ExpectRefused(with_key({65536, 65536, 65536, 65536}, 0), kInvalidArgument,
                "key.shape");
  for (size_t bytes : {44u, 49u, 52u}) {
    ExpectRefused(with_key({1, 1, 3, 4}, bytes), kInvalidArgument, "key.data");
  }
  ExpectRefused(with_key({1, 1, 3, 5}, 60), kInvalidArgument, "axis D");
  ExpectRefused(with_key({1, 1, 4, 4}, 64), kInvalidArgument, "value.shape");
  ExpectRefused(with_key({1, 3, 4}, 48), kInvalidArgument, "3 axes");
  ExpectRefused(with_key({1, 1, 1, 3, 4}, 48), kInvalidArgument, "5 axes");
  ExpectRefused(MakeRequest({.query_heads = 3, .kv_heads = 2}),
                kInvalidArgument, "does not divide");
  v1::AttendRequest request = MakeRequest({});
  SetTicks({1, 2}, v1::TICK_UNIT_SECONDS, *request.mutable_query_time());
  SetTicks({1, 2, 3, 4}, v1::TICK_UNIT_SECONDS, *request.mutable_key_time());
  ExpectRefused(request, kInvalidArgument, "key_time.shape");
}

// A reply of 40 GB is refused from its shape.
TEST_F(RefusalsTest, RepliesThatCannotBeSent) {
  v1::AttendRequest request = MakeRequest(
      {.queries = 100000, .keys = 100000, .dim = 1, .value_dim = 1});
  request.add_outputs(v1::OUTPUT_SCORES);
  const double resident = Metric("process_resident_memory_bytes");
  const auto result =
      ExpectRefused(request, kResourceExhausted, "40000001024 bytes");
  EXPECT_THAT(result.message, HasSubstr("limits.message_bytes = 134217728"));
  EXPECT_LT(result.seconds, 0.1);
  EXPECT_LT(Metric("process_resident_memory_bytes") - resident, 64 << 20);
  rpc::v1::ResourceInfo info;
  EXPECT_TRUE(result.Detail("ResourceInfo", info));
  EXPECT_EQ(info.resource_name(), "limits.message_bytes");
  EXPECT_EQ(Metric("attnd_rejected_total{reason=\"too_large\"}"), 1);
}

// Codes that mislead retries.
TEST_F(RefusalsTest, CodesSayWhoseFaultItIs) {
  v1::AttendRequest request = MakeRequest({});
  request.set_encoding("ropee");
  const auto unknown =
      ExpectRefused(request, kNotFound, "did you mean \"rope\"");
  rpc::v1::ResourceInfo info;
  EXPECT_TRUE(unknown.Detail("ResourceInfo", info));
  EXPECT_THAT(info.description(), HasSubstr("nope, alibi, rope"));

  request = MakeRequest({});
  request.mutable_query()->set_dtype(static_cast<v1::DType>(99));
  ExpectRefused(request, kInvalidArgument, "query.dtype: 99");

  const auto empty = ExpectRefused({}, kInvalidArgument, "query: required");
  EXPECT_EQ(empty.Fields(), "query,key,value");
  EXPECT_EQ(empty.Reason(), "INVALID");
}

// 100 000 wrong entries of a mask.
TEST_F(RefusalsTest, ManyWrongEntriesAreOneViolation) {
  v1::AttendRequest request =
      MakeRequest({.queries = 400, .keys = 250, .dim = 1, .value_dim = 1});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  SetTensor({1, 1, 400, 250}, std::vector<float>(100000, nan),
            *request.mutable_bias());
  const auto result = ExpectRefused(request, kInvalidArgument, "bias");
  EXPECT_THAT(result.message, HasSubstr("100000"));
}

TEST_F(RefusalsTest, InfiniteBiasIsRefusedWhereVisible) {
  v1::AttendRequest request = MakeRequest({});
  const float inf = std::numeric_limits<float>::infinity();
  SetTensor({1, 1, 1, 3}, {0, inf, -inf}, *request.mutable_bias());
  ExpectRefused(request, kInvalidArgument, "bias");
  request.mutable_mask()->set_key_validity(std::string("\1\0\1", 3));
  EXPECT_TRUE(client_->Attend(request).ok());
}

TEST_F(RefusalsTest, OneSidedEncodingsNameTheFirstPairAndBothRemedies) {
  v1::AttendRequest request = MakeRequest({});
  request.set_encoding("alibi");
  SetTicks({0, 10}, v1::TICK_UNIT_SECONDS, *request.mutable_query_time());
  SetTicks({0, 5, 7}, v1::TICK_UNIT_SECONDS, *request.mutable_key_time());
  const auto result = ExpectRefused(request, kInvalidArgument, "encoding");
  EXPECT_THAT(result.message,
              AllOf(HasSubstr("CAUSALITY_TIME"), HasSubstr("ABSOLUTE_LAG")));
  request.set_two_sided(v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
  EXPECT_TRUE(client_->Attend(request).ok());
  request.clear_two_sided();
  request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  EXPECT_TRUE(client_->Attend(request).ok());
}

TEST_F(RefusalsTest, SpansBeyond63Bits) {
  v1::AttendRequest request = MakeRequest({});
  SetTicks({INT64_MAX, 0}, v1::TICK_UNIT_NANOSECONDS,
           *request.mutable_query_time());
  SetTicks({INT64_MIN, 0, 1}, v1::TICK_UNIT_NANOSECONDS,
           *request.mutable_key_time());
  ExpectRefused(request, kInvalidArgument, "span");
}

TEST_F(RefusalsTest, InlineEncodingsNeedPermission) {
  v1::AttendRequest request = MakeRequest({});
  request.mutable_inline_encoding();
  ExpectRefused(request, kPermissionDenied, "inline_encoding");
}

TEST_F(RefusalsTest, LargeDenseBlocksOfRequestsAreRefused) {
  Start("inline_encodings: {allowed: true, dense_dim: 2}\n");
  v1::AttendRequest request = MakeRequest({});
  v1::Encoding& encoding = *request.mutable_inline_encoding();
  encoding.set_time_unit("position");
  v1::Dense& dense = *encoding.add_blocks()->mutable_dense();
  dense.set_dim(4);
  for (int i = 0; i < 16; ++i) dense.add_matrix(0);
  const auto result = ExpectRefused(request, kInvalidArgument,
                                    "inline_encodings.dense_dim = 2");
  EXPECT_EQ(result.Fields(), "inline_encoding.blocks[0].dense.dim");
}

TEST_F(RefusalsTest, EmptyAxes) {
  // What has no meaning is refused, the error names the axis.
  v1::AttendRequest request = MakeRequest({.query_heads = 0, .kv_heads = 0});
  ExpectRefused(request, kInvalidArgument, "axis H is 0");
  request = MakeRequest({.dim = 0});
  ExpectRefused(request, kInvalidArgument, "axis D is 0");
}

TEST_F(RefusalsTest, BytesThatAreNoMessage) {
  const CallEnd end = client_->CallRaw("/attnd.v1.AttentionScoring/Attend",
                                       std::string(100, '\xff'));
  EXPECT_EQ(end.code, kInvalidArgument) << end.message;
  EXPECT_THAT(end.message, HasSubstr("AttendRequest"));
  const CallEnd method =
      client_->CallRaw("/attnd.v1.AttentionScoring/Nothing", "");
  EXPECT_EQ(method.code, kUnimplemented);
}

// gRPC looks at their size before it unpacks them, and not again.
TEST_F(RefusalsTest, CompressedMessagesAreNotUnpacked) {
  const std::string zeros(16 << 20, '\0');  // 16 KiB of gzip
  for (const char* method : {"attnd.v1.AttentionScoring/Attend",
                             "attnd.v1.AttentionScoring/AttendStream",
                             "attnd.v1.AttentionScoring/Estimate",
                             "attnd.v1.AttentionScoring/GetServerInfo",
                             "grpc.health.v1.Health/Check"}) {
    const CallEnd end = client_->CallGzip(absl::StrCat("/", method), zeros);
    EXPECT_EQ(end.code, kUnimplemented) << method;
    EXPECT_THAT(end.message, HasSubstr("gzip")) << method;
  }
  EXPECT_TRUE(client_->Attend(MakeRequest({})).ok());
}

TEST_F(RefusalsTest, MessagesAboveTheLimitNeverReachUs) {
  Start("limits: {message_bytes: 100000}\n");
  const auto result =
      client_->Attend(MakeRequest({.queries = 10000, .keys = 10000}));
  EXPECT_EQ(result.code, kResourceExhausted);
  EXPECT_THAT(result.message, HasSubstr("100000"));
  EXPECT_TRUE(EventuallyMetric(
      "grpc_server_handled_total{grpc_code=\"ResourceExhausted\",grpc_method="
      "\"Attend\",grpc_service=\"attnd.v1.AttentionScoring\",grpc_type="
      "\"unary\"}",
      1));
  EXPECT_EQ(Metric("attnd_rejected_total{reason=\"too_large\"}"), 1);
  EXPECT_EQ(Metric("attnd_rejected_total{reason=\"invalid\"}"), 0);
}

TEST_F(RefusalsTest, BytesThatNeverFitAreTooLarge) {
  Start("limits: {queue_bytes: 100000}\n");
  ExpectRefused(MakeRequest({.queries = 1800, .keys = 100, .dim = 8}),
                kResourceExhausted, "limits.queue_bytes");
}

TEST_F(RefusalsTest, WorkThatIsNeverAllowedIsTooLarge) {
  Start("limits: {request_worker_seconds: 0.001}\n");
  ExpectRefused(
      MakeRequest({.queries = 4000, .keys = 4000, .dim = 1, .value_dim = 1}),
      kResourceExhausted, "limits.request_worker_seconds");
}

}  // namespace
}  // namespace attnd::testing
