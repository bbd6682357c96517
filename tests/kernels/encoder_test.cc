#include "kernels/encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

constexpr EncoderSizes kSizes = {
    .head_dim = 16, .query_heads = 7, .kv_heads = 1};

EncodingSpec WithBlocks(std::vector<Block> blocks) {
  EncodingSpec spec;
  spec.blocks = std::move(blocks);
  return spec;
}

EncodingSpec WithAlibi(AlibiTerm term) {
  EncodingSpec spec;
  spec.biases = {std::move(term)};
  return spec;
}

std::shared_ptr<const Encoder> MustCompile(const EncodingSpec& spec,
                                           const EncoderSizes& sizes = kSizes,
                                           const TickRatio& ratio = {}) {
  auto encoder = Encoder::Compile(spec, sizes, ratio);
  if (!encoder.ok()) {
    ADD_FAILURE() << encoder.status();
    return *Encoder::Compile({}, sizes, ratio);
  }
  return *std::move(encoder);
}

const std::vector<std::vector<Block>>& BlockLists() {
  constexpr PairLayout kPairs = PairLayout::kInterleaved;
  static const auto* lists = new std::vector<std::vector<Block>>{
      {RotaryBlock{}},
      {RotaryBlock{.layout = kPairs}},
      {RotaryBlock{.rotary_dim = 6}},
      {IdentityBlock{.width = 3}, RotaryBlock{.rotary_dim = 8},
       RotaryBlock{.rotary_dim = 4, .layout = kPairs}},
      {RotationBlock{.frequencies = {1}}},
      {RotationBlock{.frequencies = {1, 2}, .layout = kPairs},
       RotationBlock{.frequencies = {3}},
       RotationBlock{.frequencies = {4}, .layout = kPairs},
       RotationBlock{.frequencies = {5, 6}}},
      {RotaryBlock{.rotary_dim = 2}, IdentityBlock{.width = 2},
       RotaryBlock{.rotary_dim = 2}, IdentityBlock{.width = 1},
       RotaryBlock{.rotary_dim = 2, .layout = kPairs}},
  };
  return *lists;
}

TEST(Encoder, NothingToEncodeIsNoPE) {
  const auto encoder = MustCompile({});
  EXPECT_TRUE(encoder->head(0).identity());
  EXPECT_FALSE(encoder->has_linear_bias());
  EXPECT_FALSE(encoder->one_sided());
  EXPECT_EQ(encoder->head(0).table_size(), 0);
  EXPECT_EQ(encoder->slope(3), 0);
}

TEST(Encoder, KeepsSizesAndRatio) {
  const TickRatio ratio{.tick_ns = 1000, .unit_ns = 1'000'000'000};
  const auto encoder = MustCompile(WithBlocks({RotaryBlock{}}), kSizes, ratio);
  EXPECT_EQ(encoder->ratio(), ratio);
  EXPECT_EQ(encoder->sizes().head_dim, 16);
  EXPECT_EQ(encoder->sizes().query_heads, 7);
  EXPECT_EQ(encoder->sizes().kv_heads, 1);
  EXPECT_EQ(encoder->head(0).generator().dim(), 16);
}

TEST(Encoder, FrequenciesAreTheGeneratorsInTurnsPerTick) {
  const TickRatio ratio{.tick_ns = 1000, .unit_ns = 86'400'000'000'000};
  for (const auto& blocks : BlockLists()) {
    const auto encoder = MustCompile(WithBlocks(blocks), kSizes, ratio);
    const std::vector<Plane>& planes = encoder->head(0).generator().planes();
    const auto& all = encoder->head(0).frequencies();
    ASSERT_EQ(all.size(), 1u);
    ASSERT_GE(all[0].hi.size(), planes.size());
    ASSERT_GE(all[0].lo.size(), planes.size());
    for (size_t p = 0; p < planes.size(); ++p) {
      const TurnFrequency expected = MakeTurnFrequency(planes[p].omega, ratio);
      EXPECT_EQ(all[0].hi[p], expected.hi);
      EXPECT_EQ(all[0].lo[p], expected.lo);
      EXPECT_EQ(all[0].whole[p], expected.whole);
    }
  }
}

TEST(Encoder, GroupsCoverEveryPlaneOnceInOrder) {
  for (const auto& blocks : BlockLists()) {
    const auto encoder = MustCompile(WithBlocks(blocks));
    const std::vector<Plane>& planes = encoder->head(0).generator().planes();
    EXPECT_FALSE(encoder->head(0).plane_groups().empty());
    size_t next = 0;
    for (const auto& group : encoder->head(0).plane_groups()) {
      EXPECT_EQ(group.table_offset, static_cast<int>(next));
      for (int j = 0; j < group.planes; ++j, ++next) {
        ASSERT_LT(next, planes.size());
        const bool half = group.layout == PairLayout::kHalfSplit;
        const int first = group.first + (half ? j : 2 * j);
        EXPECT_EQ(planes[next].first, first);
        EXPECT_EQ(planes[next].second, first + (half ? group.distance : 1));
      }
    }
    EXPECT_EQ(next, planes.size());
  }
}

TEST(Encoder, AlibiTakesThePublishedSlopesOfItsHeads) {
  const auto encoder = MustCompile(WithAlibi({}));
  const std::vector<double> slopes = PublishedSlopes(7);
  EXPECT_TRUE(encoder->has_linear_bias());
  for (int h = 0; h < 7; ++h) EXPECT_EQ(encoder->slope(h), slopes[h]);
}

TEST(Encoder, OneSlopeServesAllHeads) {
  const auto encoder = MustCompile(WithAlibi({.slopes = {0.125}}));
  for (int h = 0; h < 7; ++h) EXPECT_EQ(encoder->slope(h), 0.125);
}

TEST(Encoder, OwnSlopesGoByQueryHead) {
  const auto encoder =
      MustCompile(WithAlibi({.slopes = {1, 2, 3, 4, 5, 6, 7}}));
  for (int h = 0; h < 7; ++h) EXPECT_EQ(encoder->slope(h), h + 1);
}

TEST(Encoder, OnlyOneSidedAlibiIsOneSided) {
  EXPECT_TRUE(MustCompile(WithAlibi({}))->one_sided());
  EXPECT_FALSE(
      MustCompile(WithAlibi({.slopes = {}, .two_sided = true}))->one_sided());
  EncodingSpec absolute = WithAlibi({});
  absolute.absolute_lag = true;
  EXPECT_FALSE(MustCompile(absolute)->one_sided());
  EXPECT_FALSE(MustCompile(WithBlocks({RotaryBlock{}}))->one_sided());
}

TEST(Encoder, RefusesSlopesForAnotherNumberOfHeads) {
  for (const std::vector<double>& slopes :
       {std::vector<double>{1, 2}, std::vector<double>(8, 1)}) {
    const auto encoder =
        Encoder::Compile(WithAlibi({.slopes = slopes}), kSizes, {});
    EXPECT_EQ(encoder.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(encoder.status().message()),
                ::testing::HasSubstr("slopes"));
  }
}

TEST(Encoder, RefusesBlocksThatDoNotFit) {
  const EncoderSizes small = {.head_dim = 4, .query_heads = 1, .kv_heads = 1};
  EXPECT_FALSE(
      Encoder::Compile(WithBlocks({RotaryBlock{.rotary_dim = 6}}), small, {})
          .ok());
}

TEST(Encoder, RefusesInvalidSpecs) {
  EXPECT_FALSE(Encoder::Compile(WithAlibi({.slopes = {-1}}), kSizes, {}).ok());
  EXPECT_FALSE(
      Encoder::Compile(WithBlocks({RotaryBlock{.base = 0}}), kSizes, {}).ok());
}

}  // namespace
}  // namespace attnd
