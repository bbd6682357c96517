// Requests as a whole: options, outputs, faults side by side, estimates.
#include "tests/server/decode_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "server/status.h"
#include "tests/server/requests.h"

namespace attnd::server {
namespace {

using ::attnd::testing::MakeRequest;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_F(DecodeTest, AcceptsThePlainest) {
  const auto decoded = Try();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->encoding_name, "nope");
  EXPECT_EQ(decoded->problem.encoder, nullptr);
  EXPECT_FLOAT_EQ(decoded->problem.scale, 0.5);
  EXPECT_EQ(decoded->reply.output, 8);
  EXPECT_EQ(decoded->reply.lse, 0);
  EXPECT_TRUE(decoded->problem.outputs.output);
}

TEST_F(DecodeTest, EmptyRequestsNameWhatIsMissing) {
  request_.Clear();
  ExpectInvalid("query: required; key: required; value: required");
}

TEST_F(DecodeTest, EnumsOutOfRange) {
  request_.mutable_query()->set_dtype(static_cast<v1::DType>(99));
  request_.mutable_key()->set_dtype(v1::DTYPE_UNSPECIFIED);
  request_.mutable_value()->set_layout(static_cast<v1::Layout>(7));
  request_.mutable_mask()->set_causal(static_cast<v1::Causality>(9));
  request_.set_kind(static_cast<v1::AttentionKind>(5));
  request_.set_compute(static_cast<v1::ComputePrecision>(5));
  request_.set_two_sided(static_cast<v1::TwoSidedRule>(5));
  request_.set_output_dtype(static_cast<v1::DType>(5));
  request_.add_outputs(v1::OUTPUT_UNSPECIFIED);
  const absl::Status status = Try().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* field :
       {"query.dtype: 99", "key.dtype: 0", "value.layout", "mask.causal",
        "kind", "compute", "two_sided", "output_dtype", "outputs"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }
}

TEST_F(DecodeTest, ScaleMustBeFinite) {
  request_.set_scale(static_cast<float>(kInfinity));
  ExpectInvalid("scale");
  request_.set_scale(-2);
  ExpectAccepted();
}

TEST_F(DecodeTest, RequestIdIsBounded) {
  request_.set_request_id(std::string(129, 'a'));
  ExpectInvalid("request_id: 129 bytes");
}

TEST_F(DecodeTest, ComputePrecision) {
  EXPECT_FALSE(Try()->problem.bf16_compute);
  request_.set_compute(v1::COMPUTE_PRECISION_F32);
  EXPECT_FALSE(Try()->problem.bf16_compute);
  request_.set_compute(v1::COMPUTE_PRECISION_BF16);
  EXPECT_TRUE(Try()->problem.bf16_compute);
  request_.set_compute(static_cast<v1::ComputePrecision>(9));
  ExpectInvalid("compute");
}

TEST_F(DecodeTest, OutputsThatNeedNoMatrix) {
  request_.add_outputs(v1::OUTPUT_TOP_K);
  ExpectInvalid("top_k: expected >= 1");
  request_.set_top_k(4);
  request_.add_outputs(v1::OUTPUT_KEY_MASS);
  request_.add_outputs(v1::OUTPUT_ENTROPY);
  ExpectAccepted();
  const auto decoded = Try();
  EXPECT_FALSE(decoded->problem.outputs.output);
  EXPECT_EQ(decoded->reply.top, 2 * 4);
  EXPECT_EQ(decoded->reply.key_mass, 3);
  EXPECT_EQ(decoded->reply.entropy, 2);
  // A k whose answer could not be sent.
  request_.set_top_k(1 << 30);
  ExpectRefused(absl::StatusCode::kResourceExhausted, "reply");
}

TEST_F(DecodeTest, NonsenseInOptionsIsInvalid) {
  request_.set_softcap(-1);
  ExpectInvalid("softcap");
  request_ = MakeRequest({});
  request_.set_prune_tolerance(kNan);
  ExpectInvalid("prune_tolerance");
  request_ = MakeRequest({});
  request_.set_priority(11);
  ExpectInvalid("priority");
  request_ = MakeRequest({});
  request_.add_outputs(v1::OUTPUT_TOP_K);
  ExpectInvalid("top_k");
}

TEST_F(DecodeTest, AllFieldsAtOnce) {
  request_.mutable_query()->set_data("");
  request_.mutable_value()->clear_shape();
  request_.set_scale(static_cast<float>(kNan));
  request_.set_softcap(-1);
  const absl::Status status = Try().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("query.data"), HasSubstr("value.shape"),
                    HasSubstr("scale"), HasSubstr("softcap")));
}

TEST_F(DecodeTest, RepliesThatCannotBeSentAreRefusedByShape) {
  request_ = MakeRequest(
      {.queries = 100000, .keys = 100000, .dim = 1, .value_dim = 1});
  request_.add_outputs(v1::OUTPUT_SCORES);
  const absl::Status status = Try().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("40000001024 bytes"), HasSubstr("134217728")));
  EXPECT_FALSE(ToRpcError(status).retry_delay);
}

TEST_F(DecodeTest, EstimatesNeedShapesAlone) {
  const int64_t flops = Plan::Make(Try()->problem)->flops();
  for (v1::Tensor* tensor : {request_.mutable_query(), request_.mutable_key(),
                             request_.mutable_value()}) {
    tensor->clear_data();
  }
  const auto decoded = Try(Payload::kAbsent);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto plan = Plan::Make(decoded->problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->flops(), flops);
  request_.mutable_query()->set_data("x");
  EXPECT_FALSE(Try(Payload::kAbsent).ok());
}

TEST_F(DecodeTest, EstimatesWithoutTimesSeeEverything) {
  const int64_t flops = Plan::Make(Try()->problem)->flops();
  for (v1::Tensor* tensor : {request_.mutable_query(), request_.mutable_key(),
                             request_.mutable_value()}) {
    tensor->clear_data();
  }
  SetTimes();
  request_.mutable_query_time()->clear_data();
  request_.mutable_key_time()->clear_data();
  request_.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  request_.set_encoding("alibi");
  const auto decoded = Try(Payload::kAbsent);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto plan = Plan::Make(decoded->problem);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->flops(), flops);
}

}  // namespace
}  // namespace attnd::server
