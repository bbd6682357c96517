// What replies say beside the answer: sizes, statistics, predictions, what was
// left out, what the server is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/integration/service_test.h"
#include "tests/server/requests.h"

namespace attnd::testing {
namespace {

constexpr char kEncodings[] = R"(
encodings:
  - {name: alibi, time_unit: 1s, biases: [{alibi: {}}]}
  - {name: decay, time_unit: 1s, biases: [{alibi: {slopes: [1]}}]}
)";

class RepliesTest : public ServiceTest {
 protected:
  void SetUp() override { Start(kEncodings); }
};

// More than gRPC takes by default.
TEST_F(RepliesTest, EightMegabytesOfScores) {
  v1::AttendRequest request = MakeRequest({.query_heads = 8,
                                           .kv_heads = 8,
                                           .queries = 512,
                                           .keys = 512,
                                           .dim = 64,
                                           .value_dim = 64});
  request.add_outputs(v1::OUTPUT_SCORES);
  const auto result = client_->Attend(request);
  ASSERT_TRUE(result.ok()) << result.message;
  EXPECT_EQ(result.reply.scores().data().size(), 8u << 20);
}

TEST_F(RepliesTest, StatsDescribeTheAnswer) {
  v1::AttendRequest request = MakeRequest({.queries = 200, .keys = 200});
  request.set_request_id("seven");
  const auto result = client_->Attend(request);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result.reply.request_id(), "seven");
  const v1::Stats& stats = result.reply.stats();
  EXPECT_GT(stats.compute_seconds(), 0);
  EXPECT_GE(stats.queue_seconds(), 0);
  EXPECT_GT(stats.flops(), 0);
  EXPECT_GT(stats.predicted_seconds(), 0);
  EXPECT_EQ(stats.compute(), v1::COMPUTE_PRECISION_F32);
  EXPECT_FALSE(stats.instruction_set().empty());
  EXPECT_EQ(stats.config_hash().size(), 64u);
  EXPECT_EQ(stats.config_generation(), 1);
}

TEST_F(RepliesTest, Bf16ComputeIsUsedWhereItIsNativeAndStatsSayIt) {
  v1::AttendRequest request = MakeRequest({.query_heads = 2,
                                           .kv_heads = 2,
                                           .queries = 200,
                                           .keys = 200,
                                           .dim = 64,
                                           .value_dim = 64});
  const auto exact = client_->Attend(request);
  ASSERT_TRUE(exact.ok()) << exact.message;
  request.set_compute(v1::COMPUTE_PRECISION_BF16);
  const auto rounded = client_->Attend(request);
  ASSERT_TRUE(rounded.ok()) << rounded.message;
  const bool native = client_->GetServerInfo().reply.native_bf16();
  EXPECT_EQ(rounded.reply.stats().compute(),
            native ? v1::COMPUTE_PRECISION_BF16 : v1::COMPUTE_PRECISION_F32);
  const auto a = FromBytes<float>(exact.reply.output().data());
  const auto b = FromBytes<float>(rounded.reply.output().data());
  ASSERT_EQ(a.size(), b.size());
  float most = 0, largest = 0;
  for (const float v : FromBytes<float>(request.value().data())) {
    largest = std::max(largest, std::abs(v));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  EXPECT_LE(most, 5e-3 * largest);
  EXPECT_EQ(most > 0, native);
}

TEST_F(RepliesTest, EstimatePredictsWhatAttendUses) {
  v1::AttendRequest request = MakeRequest({.query_heads = 8,
                                           .kv_heads = 8,
                                           .queries = 256,
                                           .keys = 256,
                                           .dim = 64,
                                           .value_dim = 64});
  const v1::AttendRequest whole = request;
  for (v1::Tensor* tensor : {request.mutable_query(), request.mutable_key(),
                             request.mutable_value()}) {
    tensor->clear_data();
  }
  // In this order: what a request cost corrects the next prediction.
  const auto estimate = client_->Estimate(request);
  ASSERT_TRUE(estimate.ok()) << estimate.message;
  const auto attend = client_->Attend(whole);
  ASSERT_TRUE(attend.ok());
  EXPECT_EQ(estimate.reply.flops(), attend.reply.stats().flops());
  EXPECT_NEAR(estimate.reply.predicted_seconds(),
              attend.reply.stats().predicted_seconds(),
              0.01 * attend.reply.stats().predicted_seconds());
  EXPECT_GE(estimate.reply.response_bytes(), 8 * 256 * 64 * 4);
  EXPECT_GT(estimate.reply.bytes(), estimate.reply.response_bytes());
  EXPECT_EQ(estimate.reply.predicted_wait_seconds(), 0);
  // What could never be sent is refused here too, without memory for it.
  request.mutable_query()->set_shape(2, 4000000);
  const auto refused = client_->Estimate(request);
  EXPECT_EQ(refused.code, kResourceExhausted);
}

TEST_F(RepliesTest, ListEncodingsResolvesForTheWantedSizes) {
  const auto all = client_->ListEncodings();
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all.reply.encodings_size(), 3);
  EXPECT_EQ(all.reply.encodings(0).name(), "nope");
  v1::ListEncodingsRequest request;
  request.add_names("alibi");
  request.set_query_heads(12);
  const auto one = client_->ListEncodings(request);
  ASSERT_TRUE(one.ok());
  ASSERT_EQ(one.reply.encodings_size(), 1);
  EXPECT_EQ(one.reply.encodings(0).alibi_slopes_size(), 12);
  EXPECT_DOUBLE_EQ(one.reply.encodings(0).alibi_slopes(8), std::exp2(-0.5));
  request.add_names("nothing");
  EXPECT_EQ(client_->ListEncodings(request).code, kNotFound);
  request.clear_names();
  request.set_head_dim(-1);
  EXPECT_EQ(client_->ListEncodings(request).code, kInvalidArgument);
}

// Equal logits, and weights that fall by e per second: keys from a tile of 64
// on weigh less than e^-64 of the row.
TEST_F(RepliesTest, PruningLeavesOutWhatProvablyWeighsNothing) {
  v1::AttendRequest request = MakeRequest({.queries = 512, .keys = 512});
  std::vector<double> seconds(512);
  std::iota(seconds.begin(), seconds.end(), 0.0);
  SetReal(seconds, *request.mutable_query_time());
  SetReal(seconds, *request.mutable_key_time());
  request.set_encoding("decay");
  request.mutable_mask()->set_causal(v1::CAUSALITY_TIME);
  const auto whole = client_->Attend(request);
  ASSERT_TRUE(whole.ok()) << whole.message;
  EXPECT_EQ(whole.reply.stats().lost_mass_bound(), 0);
  EXPECT_GE(whole.reply.stats().skipped_tiles(), 8 * 7 / 2);
  request.set_prune_tolerance(1e-6);
  const auto pruned = client_->Attend(request);
  ASSERT_TRUE(pruned.ok()) << pruned.message;
  EXPECT_GT(pruned.reply.stats().skipped_tiles(),
            whole.reply.stats().skipped_tiles());
  EXPECT_GT(pruned.reply.stats().lost_mass_bound(), 0);
  EXPECT_LE(pruned.reply.stats().lost_mass_bound(), 1e-6);
  const auto a = FromBytes<float>(whole.reply.output().data());
  const auto b = FromBytes<float>(pruned.reply.output().data());
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << i;
}

TEST_F(RepliesTest, ServerInfoPublishesTheLimits) {
  const auto info = client_->GetServerInfo();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info.reply.limits().message_bytes(), 134217728);
  EXPECT_EQ(info.reply.workers(), 2);
  EXPECT_FALSE(info.reply.version().empty());
  EXPECT_GT(info.reply.calibrated_flops(), 0);
  EXPECT_EQ(info.reply.config_hash().size(), 64u);
}

}  // namespace
}  // namespace attnd::testing
