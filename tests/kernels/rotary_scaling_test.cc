// Published numbers of RoPE's scalings, and how planes are dealt to
// coordinates.
#include "kernels/rotary_scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/generator.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Generator> Rotary(const RotaryBlock& block, int dim,
                                 double length = 0) {
  return Generator::Make({block}, dim, length);
}

std::vector<double> Frequencies(const RotaryBlock& block, int dim,
                                double length = 0) {
  const auto generator = Rotary(block, dim, length);
  EXPECT_TRUE(generator.ok()) << generator.status();
  std::vector<double> w;
  if (!generator.ok()) return std::vector<double>(dim / 2);
  for (const Plane& plane : generator->planes()) w.push_back(plane.omega);
  return w;
}

void ExpectRelative(double got, double expected, double bound = 1e-8) {
  EXPECT_NEAR(got / expected, 1, bound) << got << " for " << expected;
}

TEST(Yarn, PublishedExample) {
  const RotaryBlock block{
      .scaling = YarnScaling{.factor = 4, .original_length = 4096}};
  const std::vector<double> w = Frequencies(block, 128);
  ExpectRelative(w[20], .0562341325);
  ExpectRelative(w[30], .00948851788);
  ExpectRelative(w[40], .0013378867);
  ExpectRelative(w[45], .000429402589);
  ExpectRelative(w[63], 2.88695496e-5);
  // Outside planes 20 to 46 nothing is blended.
  EXPECT_DOUBLE_EQ(w[19], std::pow(10000, -19.0 / 64));
  EXPECT_DOUBLE_EQ(w[46], std::pow(10000, -46.0 / 64) / 4);
  const auto generator = Rotary(block, 128);
  EXPECT_DOUBLE_EQ(generator->channel_scale()[0], 1.138629436111989);
  EXPECT_FALSE(generator->length_dependent());
}

TEST(Yarn, PaperAndCodeRampsDiffer) {
  YarnScaling yarn{.factor = 4, .original_length = 4096};
  EXPECT_NEAR(Frequencies({.scaling = yarn}, 128)[30], 0.0094885, 5e-8);
  yarn.paper_ramp = true;
  EXPECT_NEAR(Frequencies({.scaling = yarn}, 128)[30], 0.0058158, 5e-8);
}

// Case: a configured factor is dropped without a word.
TEST(Yarn, AttentionFactorReplacesTheFormulaAndCountsTwiceInALogit) {
  const auto score = [](const YarnScaling& yarn) {
    const auto generator = Rotary({.scaling = yarn}, 4);
    EXPECT_TRUE(generator.ok()) << generator.status();
    double sum = 0;
    for (double a : generator->Exp(0)) sum += a;
    return sum;
  };
  YarnScaling yarn{.factor = 10, .original_length = 64};
  EXPECT_NEAR(score(yarn), 6.054144, 1e-6);
  yarn.attention_factor = 1.0;
  EXPECT_EQ(score(yarn), 4.0);
}

TEST(Yarn, AmplitudeIsOnRotatedChannelsOnly) {
  const auto generator = Generator::Make(
      {IdentityBlock{.width = 1},
       RotaryBlock{
           .rotary_dim = 4,
           .scaling = YarnScaling{.factor = 4, .original_length = 4096}}},
      8);
  ASSERT_TRUE(generator.ok()) << generator.status();
  const double m = 0.1 * std::log(4) + 1;
  EXPECT_EQ(generator->channel_scale(),
            (std::vector<double>{1, m, m, m, m, 1, 1, 1}));
}

TEST(Llama3, PublishedExample) {
  const std::vector<double> w =
      Frequencies({.base = 5e5, .scaling = Llama3Scaling{}}, 128);
  ExpectRelative(w[25], .00594073038);
  ExpectRelative(w[28], .00321144599);
  ExpectRelative(w[29], .00216657076);
  ExpectRelative(w[30], .00137189357);
  ExpectRelative(w[31], .000856751413);
  ExpectRelative(w[33], .00031269375);
  ExpectRelative(w[35], 9.55621235e-5);
  ExpectRelative(w[63], 3.06892599e-7);
}

TEST(LongRope, AmplitudeOfThePublishedExampleInBothRegimes) {
  const LongRopeScaling scaling{.short_factor = {1, 2},
                                .long_factor = {3, 5},
                                .original_length = 4096,
                                .factor = 32};
  for (double length : {10.0, 1e6}) {
    const auto generator = Rotary({.scaling = scaling}, 4, length);
    ASSERT_TRUE(generator.ok()) << generator.status();
    EXPECT_DOUBLE_EQ(generator->channel_scale()[3], 1.1902380714238083);
    EXPECT_TRUE(generator->length_dependent());
  }
  EXPECT_DOUBLE_EQ(Frequencies({.scaling = scaling}, 4, 4096)[1], 0.01 / 2);
  EXPECT_DOUBLE_EQ(Frequencies({.scaling = scaling}, 4, 4097)[1], 0.01 / 5);
}

TEST(DynamicNtk, PublishedBase) {
  const DynamicNtkScaling scaling{.factor = 2, .original_length = 4096};
  const std::vector<double> w = Frequencies({.scaling = scaling}, 128, 8192);
  ExpectRelative(w[1], std::pow(30527.7367488067, -2.0 / 128), 1e-14);
  EXPECT_EQ(Frequencies({.scaling = scaling}, 128, 1),
            RotaryFrequencies(128, 10000));
}

// Case: an earlier request changes a later one.
TEST(DynamicNtk, IsAFunctionOfTheItemsOwnLength) {
  const RotaryBlock block{
      .scaling = DynamicNtkScaling{.factor = 2, .original_length = 16}};
  EXPECT_DOUBLE_EQ(Frequencies(block, 4, 16)[1], 0.01);
  EXPECT_DOUBLE_EQ(Frequencies(block, 4, 64)[1], 1.0 / 700);
}

TEST(Ntk, PublishedBaseAndItsEnds) {
  const std::vector<double> w =
      Frequencies({.scaling = NtkScaling{.factor = 4}}, 128);
  const std::vector<double> plain = RotaryFrequencies(128, 10000);
  ExpectRelative(w[1], std::pow(40889.94243248622, -2.0 / 128), 1e-14);
  EXPECT_EQ(w[0], plain[0]);
  ExpectRelative(w[63], plain[63] / 4, 1e-13);
}

TEST(Linear, IsRopeOfStretchedTime) {
  const auto scaled = Rotary({.scaling = LinearScaling{.factor = 4}}, 8);
  const auto plain = Rotary({}, 8);
  ASSERT_TRUE(scaled.ok() && plain.ok());
  EXPECT_EQ(scaled->Exp(12), plain->Exp(3));
}

TEST(Proportional, KeepsTheHighestFrequenciesOfTheWholeHead) {
  const std::vector<double> w =
      Frequencies({.scaling = ProportionalScaling{.fraction = 0.25}}, 512);
  for (int j = 0; j < 256; ++j) {
    EXPECT_EQ(w[j], j < 64 ? std::pow(10000, -2.0 * j / 512) : 0);
  }
  // Planes of frequency 0 pass through to the bit.
  const auto generator =
      Rotary({.scaling = ProportionalScaling{.fraction = 0.5}}, 4);
  ASSERT_TRUE(generator.ok());
  const std::vector<double> a = generator->Exp(1e9);
  EXPECT_EQ(a[1 * 4 + 1], 1);
  EXPECT_EQ(a[1 * 4 + 3], 0);
  EXPECT_EQ(generator->planes()[1].second, 3);
}

TEST(RotaryFraction, TakesAShareOfTheChannelsLeft) {
  const auto generator = Rotary({.rotary_fraction = 0.25}, 16);
  ASSERT_TRUE(generator.ok()) << generator.status();
  ASSERT_EQ(generator->planes().size(), 2u);
  EXPECT_EQ(generator->planes()[0].second, 2);
  EXPECT_DOUBLE_EQ(generator->planes()[1].omega, 0.01);
  // int(10 * 0.5) is odd.
  EXPECT_FALSE(Rotary({.rotary_fraction = 0.5}, 10).ok());
}

std::vector<int> Coordinates(AxisSections axes, int dim) {
  const auto generator = Rotary({.axes = std::move(axes)}, dim);
  EXPECT_TRUE(generator.ok()) << generator.status();
  std::vector<int> coordinates;
  if (!generator.ok()) return coordinates;
  for (const Plane& plane : generator->planes()) {
    coordinates.push_back(plane.drive.coordinate);
  }
  return coordinates;
}

TEST(AxisSections, ContiguousSectionsFollowOneLadder) {
  EXPECT_EQ(Coordinates({.sections = {1, 2, 0, 1}}, 8),
            (std::vector<int>{0, 1, 1, 3}));
  EXPECT_EQ(Frequencies({.axes = {.sections = {1, 2, 1}}}, 8),
            RotaryFrequencies(8, 10000));
}

TEST(AxisSections, InterleavedSectionsOfAPublishedModel) {
  // [24, 20, 20]: height at 1, 4, .., 58, width at 2, 5, .., 59.
  const std::vector<int> c = Coordinates(
      {.sections = {24, 20, 20}, .order = AxisSections::Order::kInterleaved},
      128);
  ASSERT_EQ(c.size(), 64u);
  for (int j = 0; j < 64; ++j) {
    EXPECT_EQ(c[j], j < 60 ? j % 3 : 0) << "plane " << j;
  }
}

TEST(AxisSections, AxialSectionsHaveTheirOwnLadders) {
  const RotaryBlock block{
      .base = 100,
      .axes = {.sections = {2, 1}, .order = AxisSections::Order::kAxial}};
  EXPECT_EQ(Coordinates(block.axes, 6), (std::vector<int>{0, 0, 1}));
  const std::vector<double> w = Frequencies(block, 6);
  EXPECT_DOUBLE_EQ(w[1], 0.1);
  EXPECT_EQ(w[2], 1);
}

TEST(AxisSections, EqualCoordinatesAreOneAxis) {
  const auto several = Rotary({.axes = {.sections = {1, 2, 1}}}, 8);
  const auto one = Rotary({}, 8);
  ASSERT_TRUE(several.ok() && one.ok());
  EXPECT_EQ(several->Exp(3.75), one->Exp(3.75));
}

TEST(AxisSections, CountFromTheBlocksDrive) {
  const auto generator = Generator::Make(
      {Block(RotaryBlock{.axes = {.sections = {1, 1}}}, {.coordinate = 2}),
       Block(RotationBlock{.frequencies = {1, 2, 0, 3}, .coordinates = 2},
             {.clock = true, .clock_channel = 5})},
      8);
  ASSERT_FALSE(generator.ok());  // The rotary block takes all channels.
  const auto fits = Generator::Make(
      {Block(RotaryBlock{.rotary_dim = 4, .axes = {.sections = {1, 1}}},
             {.coordinate = 2}),
       Block(RotationBlock{.frequencies = {1, 2, 0, 3}, .coordinates = 2},
             {.clock = true, .clock_channel = 5})},
      8);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(fits->planes()[1].drive.coordinate, 3);
  const Plane& both = fits->planes()[2];
  EXPECT_EQ(both.drive, (Drive{.clock = true, .clock_channel = 5}));
  ASSERT_EQ(both.further.size(), 1u);
  EXPECT_EQ(both.further[0].omega, 2);
  EXPECT_EQ(both.further[0].drive, (Drive{.clock = true, .clock_channel = 6}));
  const Plane& second = fits->planes()[3];
  EXPECT_EQ(second.omega, 3);
  EXPECT_TRUE(second.further.empty());
  EXPECT_EQ(fits->drives().size(), 4u);
}

TEST(RotaryScaling, RefusesWhatDoesNotFit) {
  const auto refusal = [](const RotaryBlock& block, int dim) {
    const auto generator = Rotary(block, dim);
    EXPECT_FALSE(generator.ok());
    return std::string(generator.status().message());
  };
  EXPECT_THAT(refusal({.scaling = NtkScaling{.factor = 2}}, 2),
              HasSubstr("blocks[0].rotary: 2 rotary channels"));
  EXPECT_THAT(
      refusal({.scaling = DynamicNtkScaling{.factor = 2, .original_length = 8}},
              2),
      HasSubstr("blocks[0].rotary: 2 rotary channels"));
  EXPECT_THAT(refusal({.scaling = LongRopeScaling{.short_factor = {1},
                                                  .long_factor = {1},
                                                  .original_length = 8,
                                                  .factor = 2}},
                      4),
              HasSubstr("blocks[0].rotary.longrope.short_factor: 1 entries, "
                        "expected 2"));
  EXPECT_THAT(refusal({.axes = {.sections = {1, 2}}}, 8),
              HasSubstr("blocks[0].rotary.axes.sections: sum 3, expected 4"));
  EXPECT_THAT(refusal({.base = 5e-324}, 128), HasSubstr("finite"));
}

}  // namespace
}  // namespace attnd
