// The linear kind from resolved definitions against closed forms.
#include "client/resolved/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "client/request.h"
#include "client/resolved/attention.h"

namespace attnd::client::resolved {
namespace {

constexpr double kRate = 0.3;

// One head of one channel, q = 1, keys at 0, 1 and 3 s; times in s.
v1::AttendRequest RequestAt(const std::vector<int64_t>& query_times,
                            const std::vector<float>& keys = {1, 1, 1}) {
  const auto queries = static_cast<int64_t>(query_times.size());
  v1::AttendRequest request;
  request.set_kind(v1::ATTENTION_KIND_LINEAR);
  request.set_scale(1);
  *request.mutable_query() =
      *MakeTensor(std::vector<float>(queries, 1), {1, 1, queries, 1});
  *request.mutable_key() = *MakeTensor(keys, {1, 1, 3, 1});
  *request.mutable_value() =
      *MakeTensor(std::vector<float>{1, 2, 4}, {1, 1, 3, 1});
  *request.mutable_query_time() =
      *MakeTimeAxis(query_times, v1::TICK_UNIT_SECONDS);
  *request.mutable_key_time() =
      *MakeTimeAxis(std::vector<int64_t>{0, 1, 3}, v1::TICK_UNIT_SECONDS);
  return request;
}

v1::ResolvedEncoding Decay(double rate = kRate) {
  v1::ResolvedEncoding encoding;
  encoding.set_unit_nanoseconds(1e9);
  v1::ResolvedBlock* block = encoding.add_generators()->add_blocks();
  block->set_kind("decay");
  block->add_channels(0);
  block->set_rate(rate);
  block->set_amplitude(1);
  return encoding;
}

std::vector<double> OutputOf(const v1::AttendRequest& request,
                             const v1::ResolvedEncoding& encoding = Decay()) {
  const v1::ResolvedEncoding* one = &encoding;
  const auto answer = Attention(request, absl::MakeConstSpan(&one, 1));
  EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->output_size.size(), answer->output.size());
  return answer->output;
}

double E(double lag) { return std::exp(-kRate * lag); }

TEST(ResolvedLinear, SumsOverThePastOfEachQuery) {
  const std::vector<double> output = OutputOf(RequestAt({-1, 0, 2, 3, 5}));
  EXPECT_EQ(output[0], 0);
  EXPECT_NEAR(output[1], 1, 1e-14);
  EXPECT_NEAR(output[2], E(2) + 2 * E(1), 1e-14);
  EXPECT_NEAR(output[3], E(3) + 2 * E(2) + 4, 1e-14);
  EXPECT_NEAR(output[4], E(5) + 2 * E(4) + 4 * E(2), 1e-14);
}

TEST(ResolvedLinear, StrictLeavesOutTheQuerysOwnTime) {
  v1::AttendRequest request = RequestAt({3});
  request.mutable_mask()->set_strict(true);
  EXPECT_NEAR(OutputOf(request)[0], E(3) + 2 * E(2), 1e-14);
}

TEST(ResolvedLinear, HeldKeysAreIntegrals) {
  v1::AttendRequest request = RequestAt({2, 3, 5});
  request.mutable_linear()->set_input_rule(
      v1::LinearOptions::INPUT_RULE_ZERO_ORDER_HOLD);
  // From lag a down to lag b.
  const auto held = [](double a, double b) { return (E(b) - E(a)) / kRate; };
  const std::vector<double> output = OutputOf(request);
  EXPECT_NEAR(output[0], held(2, 1) + 2 * held(1, 0), 1e-14);
  EXPECT_NEAR(output[1], held(3, 2) + 2 * held(2, 0), 1e-14);
  EXPECT_NEAR(output[2], held(5, 4) + 2 * held(4, 2) + 4 * held(2, 0), 1e-14);
}

TEST(ResolvedLinear, TrapezoidsTakeHalfOfBothGaps) {
  v1::AttendRequest request = RequestAt({2, 5});
  request.mutable_linear()->set_input_rule(
      v1::LinearOptions::INPUT_RULE_TRAPEZOID);
  const std::vector<double> output = OutputOf(request);
  EXPECT_NEAR(output[0], 0.5 * E(2) + 0.5 * 2 * E(1), 1e-14);
  EXPECT_NEAR(output[1], 0.5 * E(5) + 1.5 * 2 * E(4) + 1 * 4 * E(2), 1e-14);
}

TEST(ResolvedLinear, NormalisersDivide) {
  v1::AttendRequest request = RequestAt({-1, 5});
  request.mutable_linear()->set_normaliser(v1::LinearOptions::NORMALISER_SUM);
  const double sum = E(5) + 2 * E(4) + 4 * E(2);
  const double ones = E(5) + E(4) + E(2);
  std::vector<double> output = OutputOf(request);
  EXPECT_EQ(output[0], 0);
  EXPECT_NEAR(output[1], sum / ones, 1e-14);
  // Weights over the root of the sum of decays, and over their own sum where
  // that exceeds 1.
  request.set_scale(0.1f);
  request.mutable_linear()->set_normaliser(
      v1::LinearOptions::NORMALISER_RETNET);
  output = OutputOf(request);
  EXPECT_EQ(output[0], 0);
  EXPECT_NEAR(output[1], 0.1f * sum / std::sqrt(ones), 1e-14);
  request.set_scale(100);
  EXPECT_NEAR(OutputOf(request)[1], sum / ones, 1e-14);
}

TEST(ResolvedLinear, FeatureMapsApplyToBothSides) {
  v1::AttendRequest request = RequestAt({5}, {-1, 0.5f, 2});
  const auto output = [&](v1::LinearOptions::FeatureMap map) {
    request.mutable_linear()->set_feature_map(map);
    return OutputOf(request)[0];
  };
  const auto sum = [&](double a, double b, double c) {
    return a * E(5) + b * 2 * E(4) + c * 4 * E(2);
  };
  EXPECT_NEAR(output(v1::LinearOptions::FEATURE_MAP_RELU), sum(0, 0.5, 2),
              1e-14);
  EXPECT_NEAR(output(v1::LinearOptions::FEATURE_MAP_ELU_PLUS_ONE),
              2 * sum(std::exp(-1), 1.5, 3), 1e-14);
  const auto soft = [](double x) { return std::log(1 + std::exp(x)); };
  EXPECT_NEAR(output(v1::LinearOptions::FEATURE_MAP_SOFTPLUS),
              soft(1) * sum(soft(-1), soft(0.5), soft(2)), 1e-13);
}

TEST(ResolvedLinear, BidirectionalCountsTheOwnTimeOnce) {
  v1::AttendRequest request = RequestAt({1});
  request.mutable_linear()->set_bidirectional(true);
  request.set_two_sided(v1::TWO_SIDED_RULE_ABSOLUTE_LAG);
  EXPECT_NEAR(OutputOf(request)[0], E(1) + 2 + 4 * E(2), 1e-14);
  request.mutable_mask()->set_strict(true);
  EXPECT_NEAR(OutputOf(request)[0], E(1) + 4 * E(2), 1e-14);
}

TEST(ResolvedLinear, CarriedStatesAreNotComputed) {
  v1::AttendRequest request = RequestAt({1});
  request.mutable_linear()->mutable_initial_state()->set_version(1);
  EXPECT_EQ(Attention(request, {}).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace attnd::client::resolved
