// Tensors of requests: shapes, layouts, element types, limits, biases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/status.h"
#include "tests/server/decode_test.h"
#include "tests/server/requests.h"

namespace attnd::server {
namespace {

using ::attnd::testing::MakeRequest;
using ::attnd::testing::SetTensor;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_F(DecodeTest, ShapesThatLie) {
  const struct {
    std::vector<int64_t> shape;
    const char* text;
  } cases[] = {
      {{1, 1, -1, 4}, "key.shape: axis L is -1"},
      {{65536, 65536, 65536, 65536}, "key.shape"},
      {{1, 1, 3}, "key.shape: 3 axes, expected 4"},
      {{1, 1, 3, 4, 1}, "key.shape: 5 axes, expected 4"},
      {{1, 1, 3, 5}, "key.shape: axis D is 5"},
      {{2, 1, 3, 4}, "key.shape: axis B is 2"},
      {{1, 1, 4, 4}, "value.shape: axis L is 3, but that of key is 4"},
      {{1, 0, 3, 4}, "key.shape: axis H is 0"},
      {{1, 1, 3, 0}, "key.shape: axis D is 0"},
      {{}, "key.shape: 0 axes"},
      {{INT64_MAX, INT64_MAX, 0, INT64_MAX}, "key.shape"},
  };
  for (const auto& c : cases) {
    request_ = MakeRequest({});
    request_.mutable_key()->mutable_shape()->Clear();
    request_.mutable_key()->mutable_shape()->Add(c.shape.begin(),
                                                 c.shape.end());
    ExpectInvalid(c.text);
  }
}

TEST_F(DecodeTest, ByteCountsAreExact) {
  for (const size_t bytes : {0u, 20u, 47u, 49u, 52u}) {
    request_.mutable_key()->set_data(std::string(bytes, 'x'));
    ExpectInvalid(absl::StrCat("key.data: ", bytes,
                               " bytes, expected 48 (f32 [1,1,3,4])"));
  }
}

TEST_F(DecodeTest, HeadsMustDivide) {
  request_ = MakeRequest({.query_heads = 3, .kv_heads = 2});
  ExpectInvalid("key.shape: axis H is 2, which does not divide the query's 3");
  request_ = MakeRequest({.query_heads = 6, .kv_heads = 2});
  ExpectAccepted();
}

TEST_F(DecodeTest, AxesByLayout) {
  // [B,L,H,D] with L = 2, H = 6.
  request_ = MakeRequest({.query_heads = 6, .kv_heads = 2, .queries = 2});
  v1::Tensor& query = *request_.mutable_query();
  query.set_layout(v1::LAYOUT_BLHD);
  query.mutable_shape()->SwapElements(1, 2);
  ExpectAccepted();
  const auto decoded = Try();
  EXPECT_EQ(decoded->sizes.query_heads, 6);
  EXPECT_EQ(decoded->sizes.queries, 2);
}

TEST_F(DecodeTest, LimitsAreNamed) {
  request_ = MakeRequest({.dim = 1025});
  ExpectInvalid("query.shape: axis D is 1025, expected 1 to 1024 (limits.dim)");
  request_ = MakeRequest({.query_heads = 1025});
  ExpectInvalid("(limits.heads)");
  request_ = MakeRequest(
      {.batch = 65537, .queries = 1, .keys = 1, .dim = 1, .value_dim = 1});
  ExpectInvalid("(limits.batch)");
}

TEST_F(DecodeTest, EmptyAxesAreFineWhereTheyMeanSomething) {
  for (const testing::Sizes& sizes :
       {testing::Sizes{.batch = 0}, testing::Sizes{.queries = 0},
        testing::Sizes{.keys = 0}, testing::Sizes{.value_dim = 0}}) {
    request_ = MakeRequest(sizes);
    ExpectAccepted();
  }
}

TEST_F(DecodeTest, ElementTypesMixAndTheOutputFollowsTheQuery) {
  const auto to_half = [](v1::DType dtype, v1::Tensor* tensor) {
    tensor->set_dtype(dtype);
    tensor->mutable_data()->resize(tensor->data().size() / 2);
  };
  to_half(v1::DTYPE_BF16, request_.mutable_query());
  to_half(v1::DTYPE_F16, request_.mutable_value());
  ExpectAccepted();
  EXPECT_EQ(Try()->problem.query.dtype(), DType::kBF16);
  EXPECT_EQ(Try()->problem.key.dtype(), DType::kF32);
  EXPECT_EQ(Try()->problem.value.dtype(), DType::kF16);
  EXPECT_EQ(Try()->problem.output_dtype, DType::kBF16);
  request_.set_output_dtype(v1::DTYPE_F32);
  EXPECT_EQ(Try()->problem.output_dtype, DType::kF32);
}

TEST_F(DecodeTest, BiasShapes) {
  SetTensor({1, 1, 2, 3}, std::vector<float>(6, 0), *request_.mutable_bias());
  ExpectAccepted();
  SetTensor({1, 1, 1, 1}, {0}, *request_.mutable_bias());
  ExpectAccepted();
  SetTensor({1, 1, 3, 3}, std::vector<float>(9, 0), *request_.mutable_bias());
  ExpectInvalid("bias.shape: [1,1,3,3], expected B|1=1, Hq|1=1, Lq|1=2");
}

TEST_F(DecodeTest, RefusedBiasElementsAreCounted) {
  request_ = MakeRequest({.queries = 100, .keys = 50});
  SetTensor({1, 1, 100, 50}, std::vector<float>(5000, static_cast<float>(kNan)),
            *request_.mutable_bias());
  const auto decoded = Try();
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto plan = Plan::Make(decoded->problem);
  const absl::Status status = FromPlan(plan.status(), decoded->problem);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("bias: element [0,0,0,0]"), HasSubstr("5000")));
}

TEST_F(DecodeTest, ABiasMayHaveAnyLayoutAndElementType) {
  SetTensor({1, 2, 1, 3}, std::vector<float>(6, 0), *request_.mutable_bias());
  request_.mutable_bias()->set_layout(v1::LAYOUT_BLHD);
  ExpectAccepted();
  request_.mutable_bias()->set_dtype(v1::DTYPE_BF16);
  request_.mutable_bias()->mutable_data()->resize(12);
  ExpectAccepted();
  EXPECT_EQ(Try()->problem.bias.shape(), (Shape4{1, 1, 2, 3}));
  // bf16 infinity.
  request_.mutable_bias()->mutable_data()->replace(4, 2, "\x80\x7f");
  const auto decoded = Try();
  ASSERT_TRUE(decoded.ok());
  const auto plan = Plan::Make(decoded->problem);
  const absl::Status status = FromPlan(plan.status(), decoded->problem);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("bias: element [0,0,0,2]: inf"),
                    HasSubstr("NaN or +inf elements in all: 1")));
}

}  // namespace
}  // namespace attnd::server
