// Masks, element types and outputs beyond the plain ones over the wire, in
// closed form.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/integration/service_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr float kInf = std::numeric_limits<float>::infinity();

class FeaturesTest : public ServiceTest {
 protected:
  void SetUp() override { Start(""); }

  v1::AttendResponse Ask(const v1::AttendRequest& request) {
    const auto result = client_->Attend(request);
    EXPECT_TRUE(result.ok()) << result.code << ": " << result.message;
    return result.reply;
  }
  std::vector<float> Output(const v1::AttendRequest& request) {
    return FromBytes<float>(Ask(request).output().data());
  }
  void ExpectOutput(const v1::AttendRequest& request,
                    const std::vector<float>& expected) {
    EXPECT_THAT(Output(request), Pointwise(FloatNear(1e-5), expected));
  }
};

// Equal logits: an output is the mean of the visible values 0, 1, 2, ...
v1::AttendRequest Means(int64_t queries, int64_t keys) {
  v1::AttendRequest request;
  SetTensor({1, 1, queries, 1}, std::vector<float>(queries, 0),
            *request.mutable_query());
  SetTensor({1, 1, keys, 1}, std::vector<float>(keys, 1),
            *request.mutable_key());
  std::vector<float> values;
  for (int64_t j = 0; j < keys; ++j) values.push_back(static_cast<float>(j));
  SetTensor({1, 1, keys, 1}, values, *request.mutable_value());
  return request;
}

TEST_F(FeaturesTest, MasksSelectTheKeysTheyName) {
  v1::AttendRequest request = Means(2, 6);
  v1::Mask& mask = *request.mutable_mask();
  SetTicks({35, 25}, v1::TICK_UNIT_SECONDS, *request.mutable_query_time());
  SetTicks({30, 10, 0, 20, 50, 40}, v1::TICK_UNIT_SECONDS,
           *request.mutable_key_time());
  mask.set_past_keys(1);
  mask.set_future_keys(1);
  ExpectOutput(request, {2.5f, 1.5f});
  mask.set_prefix(1);
  ExpectOutput(request, {7 / 3.0f, 5 / 3.0f});
  mask.Clear();
  mask.set_causal(v1::CAUSALITY_INDEX);
  ExpectOutput(request, {2, 2.5f});
  mask.Clear();
  v1::TimeRange& range = *mask.add_key_ranges();
  range.set_begin_ticks(10);
  range.set_end_ticks(20);
  ExpectOutput(request, {2, 2});
  mask.Clear();
  for (int64_t offset : {0, 1, 2}) mask.add_query_offsets(offset);
  for (int64_t offset : {0, 2, 6}) mask.add_key_offsets(offset);
  ExpectOutput(request, {0.5f, 3.5f});
  mask.Clear();
  mask.set_value_channel_mask(std::string("\0\1\0\1\0\0", 6));
  ExpectOutput(request, {2, 2});
}

TEST_F(FeaturesTest, ASinkTakesItsShare) {
  v1::AttendRequest request = Means(1, 3);
  request.mutable_mask()->add_sinks(std::log(3.0f));
  request.add_outputs(v1::OUTPUT_OUTPUT);
  request.add_outputs(v1::OUTPUT_LSE);
  const v1::AttendResponse reply = Ask(request);
  EXPECT_NEAR(FromBytes<float>(reply.output().data())[0], 0.5, 1e-6);
  EXPECT_NEAR(FromBytes<float>(reply.lse().data())[0], std::log(6), 1e-6);
}

TEST_F(FeaturesTest, SoftcapComesBeforeTheBias) {
  v1::AttendRequest request = Means(1, 2);
  SetTensor({1, 1, 1, 1}, {9}, *request.mutable_query());
  request.set_scale(1);
  request.set_softcap(3);
  SetTensor({1, 1, 1, 2}, {4, -kInf}, *request.mutable_bias());
  request.add_outputs(v1::OUTPUT_SCORES);
  const auto scores = FromBytes<float>(Ask(request).scores().data());
  EXPECT_NEAR(scores[0], 3 * std::tanh(3.0) + 4, 1e-5);
  EXPECT_EQ(scores[1], -kInf);
}

// Sums in f16 would overflow.
TEST_F(FeaturesTest, HalvesAreSummedInF32AndComeBackAsAsked) {
  const auto halves = [](const std::vector<int64_t>& shape,
                         const std::vector<uint16_t>& bits,
                         v1::Tensor& tensor) {
    tensor.set_dtype(v1::DTYPE_F16);
    tensor.mutable_shape()->Add(shape.begin(), shape.end());
    tensor.set_data(ToBytes(bits));
  };
  constexpr uint16_t kOne = 0x3c00, kThree = 0x4200, kForty = 0x5100;
  v1::AttendRequest request;
  halves({1, 1, 1, 64}, std::vector<uint16_t>(64, kForty),
         *request.mutable_query());
  halves({1, 1, 2, 64}, std::vector<uint16_t>(128, kForty),
         *request.mutable_key());
  halves({1, 1, 2, 1}, {kOne, kThree}, *request.mutable_value());
  request.set_scale(0.125f);
  for (const v1::Output output :
       {v1::OUTPUT_OUTPUT, v1::OUTPUT_LSE, v1::OUTPUT_SCORES}) {
    request.add_outputs(output);
  }
  v1::AttendResponse reply = Ask(request);
  EXPECT_EQ(reply.output().dtype(), v1::DTYPE_F16);
  EXPECT_THAT(FromBytes<uint16_t>(reply.output().data()), ElementsAre(0x4000));
  EXPECT_THAT(FromBytes<float>(reply.scores().data()),
              ElementsAre(12800, 12800));
  EXPECT_EQ(FromBytes<float>(reply.lse().data())[0],
            static_cast<float>(12800 + std::log(2.0)));
  request.set_output_dtype(v1::DTYPE_F32);
  EXPECT_THAT(Output(request), ElementsAre(2));
}

TEST_F(FeaturesTest, TopKeysMassAndEntropyNeedNoMatrix) {
  v1::AttendRequest request = Means(2, 3);
  SetTensor({1, 1, 3, 1}, {0, 0, 0}, *request.mutable_key());
  SetTicks({6, 9}, v1::TICK_UNIT_SECONDS, *request.mutable_query_time());
  SetTicks({7, 5, 5}, v1::TICK_UNIT_SECONDS, *request.mutable_key_time());
  request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  request.set_top_k(3);
  for (const v1::Output output :
       {v1::OUTPUT_TOP_K, v1::OUTPUT_KEY_MASS, v1::OUTPUT_ENTROPY}) {
    request.add_outputs(output);
  }
  const v1::AttendResponse reply = Ask(request);
  EXPECT_FALSE(reply.has_output());
  EXPECT_THAT(FromBytes<int64_t>(reply.top_k().indices()),
              ElementsAre(1, 2, -1, 0, 1, 2));
  EXPECT_THAT(FromBytes<int64_t>(reply.top_k().times()),
              ElementsAre(5, 5, 0, 7, 5, 5));
  const auto weights = FromBytes<float>(reply.top_k().weights().data());
  EXPECT_NEAR(weights[0], 0.5, 1e-6);
  EXPECT_EQ(weights[2], 0);
  const auto mass = FromBytes<float>(reply.key_mass().data());
  EXPECT_NEAR(mass[0], 1 / 3.0, 1e-6);
  EXPECT_NEAR(mass[1], 1 / 2.0 + 1 / 3.0, 1e-6);
  const auto entropy = FromBytes<float>(reply.entropy().data());
  EXPECT_NEAR(entropy[0], std::log(2), 1e-6);
  EXPECT_NEAR(entropy[1], std::log(3), 1e-6);
}

}  // namespace
}  // namespace attnd::testing
