#include "client/interpolate/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/interpolate/constant_vector.h"
#include "tests/client/stub_attention.h"
#include "tests/client/stub_service.h"

namespace attnd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

v1::ResolvedEncoding TwoPlanes() {
  v1::ResolvedEncoding encoding;
  encoding.set_name("two");
  encoding.set_head_dim(6);
  v1::ResolvedGenerator* generator = encoding.add_generators();
  const std::pair<const char*, std::vector<int>> blocks[] = {
      {"rotation", {0, 3}}, {"identity", {1, 4}}, {"rotation", {2, 5}}};
  for (const auto& [kind, channels] : blocks) {
    v1::ResolvedBlock* block = generator->add_blocks();
    block->set_kind(kind);
    block->mutable_channels()->Add(channels.begin(), channels.end());
  }
  return encoding;
}

TEST(ConstantVector, HoldsTheRootOfEachWeightInItsPlane) {
  EXPECT_EQ(CountTimedBlocks(TwoPlanes()), 2);
  const auto vector = ConstantVector(TwoPlanes(), {9, 4});
  ASSERT_TRUE(vector.ok()) << vector.status();
  EXPECT_THAT(*vector, ElementsAre(3, 0, 2, 0, 0, 0));
}

TEST(ConstantVector, SaysWhichCountsDiffer) {
  EXPECT_THAT(std::string(ConstantVector(TwoPlanes(), {1}).status().message()),
              HasSubstr("'two' has 2 planes, but 1 weights"));
  EXPECT_FALSE(ConstantVector(TwoPlanes(), {1, -1}).ok());
  EXPECT_FALSE(ConstantVector(TwoPlanes(), {1, NAN}).ok());
  EXPECT_FALSE(ConstantVector(TwoPlanes(), {1, INFINITY}).ok());
}

TEST(ConstantVector, ChannelsOutsideTheHeadAreTheServersFault) {
  v1::ResolvedEncoding encoding = TwoPlanes();
  encoding.set_head_dim(2);
  EXPECT_TRUE(absl::IsInternal(ConstantVector(encoding, {1, 1}).status()));
}

TEST(DefaultWeights, Halve) {
  EXPECT_THAT(DefaultWeights(3), ElementsAre(8, 4, 2));
  EXPECT_TRUE(DefaultWeights(0).empty());
}

TEST(Estimate, ATrendWithoutRestIsReturnedAsItIs) {
  StubService stub;
  ServeAttention(Co2Encodings(), &stub);
  const Client client = *Client::Create({.endpoints = {stub.address()}});
  const std::vector<int64_t> times = {0, 10, 20, 30};
  const std::vector<double> values = {1, 2, 3, 4};
  const Trend trend = *Trend::Fit(times, values, 1);
  const auto estimate =
      Estimate(client, {.passes = {{.encoding = "co2", .plane_weights = {}}}},
               trend, times, values, {5, 40});
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_NEAR((*estimate)[0], 1.5, 1e-6);
  EXPECT_NEAR((*estimate)[1], 5, 1e-6);
}

// With a very narrow second pass the two together go through the values.
TEST(Estimate, ASecondPassTakesWhatTheFirstLeft) {
  constexpr int64_t kYear = 31'557'600'000'000'000;
  StubService stub;
  ServeAttention({{"wide", {.unit_ns = double{kYear}, .slope = 0.01}},
                  {"narrow", {.unit_ns = double{kYear}, .slope = 100}}},
                 &stub);
  const Client client = *Client::Create({.endpoints = {stub.address()}});
  const std::vector<int64_t> times = {0, kYear, 2 * kYear};
  const std::vector<double> values = {1, 5, 2};
  const auto estimate =
      Estimate(client,
               {.passes = {{.encoding = "wide", .plane_weights = {}},
                           {.encoding = "narrow", .plane_weights = {}}}},
               *Trend::Fit({}, {}, -1), times, values, times);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  for (int i : {0, 1, 2}) EXPECT_NEAR((*estimate)[i], values[i], 1e-5);
}

TEST(Estimate, AnUnknownEncodingIsNamed) {
  StubService stub;
  ServeAttention(Co2Encodings(), &stub);
  const Client client = *Client::Create({.endpoints = {stub.address()}});
  const auto estimate =
      Estimate(client, {.passes = {{.encoding = "ropee", .plane_weights = {}}}},
               *Trend::Fit({}, {}, -1), {0}, {1.0}, {0});
  EXPECT_TRUE(absl::IsNotFound(estimate.status())) << estimate.status();
}

}  // namespace
}  // namespace attnd::client
