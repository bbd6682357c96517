#include "client/interpolate/holdout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "client/random.h"

namespace attnd::client {
namespace {

using ::testing::HasSubstr;

std::vector<int> Lengths(const std::vector<bool>& hidden) {
  std::vector<int> lengths;
  int run = 0;
  for (bool h : hidden) {
    if (h) {
      ++run;
    } else if (run > 0) {
      lengths.push_back(run);
      run = 0;
    }
  }
  EXPECT_EQ(run, 0) << "the last observation is hidden";
  return lengths;
}

// The reference values of SplitMix64 with seed 1234567.
TEST(Random, IsSplitMix64) {
  Random random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317u);
  EXPECT_EQ(random.Next(), 3203168211198807973u);
  EXPECT_EQ(random.Next(), 9817491932198370423u);
}

TEST(Random, MomentsAreRight) {
  Random random(1);
  double uniform = 0, exponential = 0, normal = 0, square = 0;
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) {
    uniform += random.Uniform();
    exponential += random.Exponential();
    const double x = random.Normal();
    normal += x;
    square += x * x;
  }
  EXPECT_NEAR(uniform / kCount, 0.5, 0.005);
  EXPECT_NEAR(exponential / kCount, 1, 0.02);
  EXPECT_NEAR(normal / kCount, 0, 0.02);
  EXPECT_NEAR(square / kCount, 1, 0.02);
}

TEST(HideBlocks, HidesBlocksApartFromEachOtherAndTheEnds) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto hidden = HideBlocks(2225, {40, 13}, seed);
    ASSERT_TRUE(hidden.ok()) << hidden.status();
    ASSERT_EQ(hidden->size(), 2225u);
    EXPECT_FALSE(hidden->front());
    const std::vector<int> lengths = Lengths(*hidden);
    EXPECT_EQ(lengths, std::vector<int>(40, 13)) << "seed " << seed;
  }
}

TEST(HideBlocks, SeedsAreReproducible) {
  const auto one = HideBlocks(100, {3, 5}, 1).value();
  EXPECT_EQ(HideBlocks(100, {3, 5}, 1).value(), one);
  EXPECT_NE(HideBlocks(100, {3, 5}, 2).value(), one);
  // Pinned: a seed must mean the same in every release.
  std::vector<int> starts;
  for (size_t i = 1; i < one.size(); ++i) {
    if (one[i] && !one[i - 1]) starts.push_back(static_cast<int>(i));
  }
  EXPECT_THAT(starts, ::testing::ElementsAre(38, 50, 88));
}

TEST(HideBlocks, EveryArrangementIsEquallyLikely) {
  // 2 blocks of 1 in 6 observations: 3 gaps between the 4 visible, 3 choices.
  std::map<std::vector<bool>, int> seen;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    ++seen[HideBlocks(6, {2, 1}, seed).value()];
  }
  ASSERT_EQ(seen.size(), 3u);
  for (const auto& [arrangement, count] : seen) EXPECT_NEAR(count, 1000, 100);
}

TEST(HideBlocks, SaysWhenBlocksDoNotFit) {
  EXPECT_TRUE(HideBlocks(3, {1, 1}, 1).ok());
  EXPECT_TRUE(HideBlocks(41 + 40 * 13, {40, 13}, 1).ok());
  EXPECT_THAT(
      std::string(HideBlocks(40 + 40 * 13, {40, 13}, 1).status().message()),
      HasSubstr("holdout 40x13: does not fit into 560"));
  const int64_t big = int64_t{1} << 40;
  EXPECT_FALSE(HideBlocks(1000, {big, big}, 1).ok());
}

TEST(ParseHoldout, ReadsBlocksTimesLength) {
  EXPECT_EQ(ParseHoldout("40x13")->count, 40);
  EXPECT_EQ(ParseHoldout("40x13")->length, 13);
  for (const char* text :
       {"", "40", "x13", "40x", "0x13", "40x0", "-1x2", "40x13x2", "axb"}) {
    EXPECT_FALSE(ParseHoldout(text).ok()) << text;
  }
}

}  // namespace
}  // namespace attnd::client
