// Named families: published numbers, and the scores their papers define.
#include "kernels/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/generator.h"
#include "tests/kernels/matrix_oracle.h"

namespace attnd {
namespace {

using testing::Difference;
using ::testing::HasSubstr;
using testing::Matrix;
using testing::Product;
using testing::SeriesExp;
using testing::Transpose;

Generator Made(const std::vector<Block>& blocks, int dim) {
  auto generator = Generator::Make(blocks, dim);
  EXPECT_TRUE(generator.ok()) << generator.status();
  return *std::move(generator);
}

TEST(XPos, PublishedZetas) {
  const auto spec = XPos({}, 64);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(Validate(*spec).ok());
  const auto& block = std::get<DampedRotationBlock>(spec->blocks[0].kind);
  EXPECT_NEAR(std::exp(-512 * block.rates[0]), .2857142857, 1e-10);
  EXPECT_NEAR(std::exp(-512 * block.rates[31]), .9776785714, 1e-10);
  EXPECT_NEAR(block.rates[0], 0.00245, 5e-6);
  EXPECT_DOUBLE_EQ(block.frequencies[31], std::pow(10000, -62.0 / 64));
}

// q *= zeta^(t/B), k *= zeta^(-s/B), both rotated: whatever the origin.
TEST(XPos, ScoreOfThePaper) {
  const auto spec = XPos({.scale_base = 1}, 4);
  ASSERT_TRUE(spec.ok());
  const Matrix a = Made(spec->blocks, 4).Exp(2);
  for (double t : {2.0, 5.0}) {
    const double s = t - 2;
    double score = 0, expected = 0;
    const std::vector<double> q = {1, 2, -1, 0.5}, k = {0.25, 1, 3, -2};
    for (int j = 0; j < 2; ++j) {
      const double w = std::pow(10000, -j / 2.0);
      const double zeta = (2.0 * j / 4 + 0.4) / 1.4;
      const double up = std::pow(zeta, t), down = std::pow(zeta, -s);
      const double q0 =
          up * (q[2 * j] * std::cos(w * t) - q[2 * j + 1] * std::sin(w * t));
      const double q1 =
          up * (q[2 * j] * std::sin(w * t) + q[2 * j + 1] * std::cos(w * t));
      const double k0 =
          down * (k[2 * j] * std::cos(w * s) - k[2 * j + 1] * std::sin(w * s));
      const double k1 =
          down * (k[2 * j] * std::sin(w * s) + k[2 * j + 1] * std::cos(w * s));
      expected += q0 * k0 + q1 * k1;
    }
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) score += q[i] * a[i * 4 + j] * k[j];
    }
    EXPECT_NEAR(score, expected, 1e-13);
  }
}

TEST(RetNet, PublishedGammasAndAngles) {
  const auto spec = RetNet({}, 8, 4);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(Validate(*spec).ok());
  ASSERT_EQ(spec->per_head.size(), 4u);
  const double gammas[] = {.96875, .984375, .9921875, .99609375};
  for (int h = 0; h < 4; ++h) {
    const Generator generator = Made(spec->per_head[h], 8);
    EXPECT_DOUBLE_EQ(std::exp(-generator.chains()[0].rate), gammas[h]);
    EXPECT_EQ(generator.planes()[0].omega, 1);
    EXPECT_DOUBLE_EQ(generator.planes()[1].omega, std::pow(10000, -1.0 / 3));
    EXPECT_DOUBLE_EQ(generator.planes()[3].omega, 1e-4);
  }
  // Far heads: ln gamma keeps its digits.
  const auto many = RetNet({}, 2, 40);
  ASSERT_TRUE(many.ok());
  EXPECT_DOUBLE_EQ(Made(many->per_head[39], 2).chains()[0].rate,
                   0x1p-44 + 0x1p-89);
}

TEST(Fox, IsACumulativeGateAlone) {
  const EncodingSpec spec = Fox(true);
  EXPECT_TRUE(spec.blocks.empty());
  ASSERT_EQ(spec.biases.size(), 1u);
  EXPECT_TRUE(std::get<CumulativeGateTerm>(spec.biases[0]).per_unit);
  EXPECT_TRUE(Validate(spec).ok());
}

TEST(Gla, EveryChannelDecaysAlongItsOwnClock) {
  const auto spec = Gla(5);
  ASSERT_TRUE(spec.ok());
  const Generator generator = Made(spec->blocks, 5);
  ASSERT_EQ(generator.chains().size(), 5u);
  for (int c = 0; c < 5; ++c) {
    EXPECT_EQ(generator.chains()[c].channels, std::vector<int>{c});
    EXPECT_EQ(generator.chains()[c].rate, 1);
    EXPECT_EQ(generator.chains()[c].drive,
              (Drive{.clock = true, .clock_channel = c}));
  }
}

TEST(Mamba2, AllChannelsDecayAlongOneClock) {
  const Generator generator = Made(Mamba2().blocks, 3);
  EXPECT_EQ(generator.chains().size(), 3u);
  EXPECT_EQ(generator.drives(),
            std::vector<Drive>{(Drive{.clock = true, .clock_channel = 0})});
}

TEST(Mamba3, PhasesAndDecaysHaveTheirOwnClocks) {
  for (double fraction : {0.5, 1.0}) {
    const auto spec = Mamba3(8, fraction);
    ASSERT_TRUE(spec.ok()) << spec.status();
    ASSERT_TRUE(Validate(*spec).ok());
    const Generator generator = Made(spec->blocks, 8);
    const size_t planes = fraction == 1 ? 4 : 2;
    ASSERT_EQ(generator.planes().size(), planes);
    EXPECT_EQ(generator.chains().size(), 8u);
    // Clock channel c stands at 0.5 + c: e^-0.5 R(-(1.5 + j)).
    const Matrix a = generator.Exp(
        [](const Drive& drive) { return 0.5 + drive.clock_channel; }, {});
    for (size_t j = 0; j < planes; ++j) {
      EXPECT_EQ(generator.planes()[j].drive.clock_channel,
                1 + static_cast<int>(j));
      EXPECT_NEAR(a[2 * j * 8 + 2 * j + 1],
                  std::exp(-0.5) * std::sin(1.5 + static_cast<double>(j)),
                  1e-15);
    }
    if (planes == 2) {
      EXPECT_NEAR(a[7 * 8 + 7], std::exp(-0.5), 1e-15);
    }
  }
  EXPECT_FALSE(Mamba3(8, 0.25).ok());
  EXPECT_FALSE(Mamba3(6, 0.5).ok());
}

TEST(SelectiveRope, EveryPlaneTurnsAlongItsOwnClock) {
  const auto spec = SelectiveRope(6, PairLayout::kHalfSplit);
  ASSERT_TRUE(spec.ok());
  const Generator generator = Made(spec->blocks, 6);
  ASSERT_EQ(generator.planes().size(), 3u);
  for (int j = 0; j < 3; ++j) {
    const Plane& plane = generator.planes()[j];
    EXPECT_EQ(plane.first, j);
    EXPECT_EQ(plane.second, j + 3);
    EXPECT_EQ(plane.omega, 1);
    EXPECT_TRUE(plane.further.empty());
    EXPECT_EQ(plane.drive, (Drive{.clock = true, .clock_channel = j}));
  }
  EXPECT_FALSE(generator.one_sided());
}

TEST(AugmentedAlibi, GivesTheBiasWithThePublishedSlopes) {
  const auto spec = AugmentedAlibi({}, 6, 8);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(Validate(*spec).ok());
  const double scale = 0.25;
  for (int h = 0; h < 8; ++h) {
    const Generator generator = Made(spec->per_head[h], 6);
    EXPECT_TRUE(generator.one_sided());
    EXPECT_FALSE(generator.bounded());
    for (double lag : {0.0, 1.0, 1000.5}) {
      // q = (1/scale, 0), k = (0, -1) in the last two channels.
      const double bias =
          scale * (1 / scale) * generator.Exp(lag)[4 * 6 + 5] * -1;
      EXPECT_DOUBLE_EQ(bias, -std::exp2(-1 - h) * lag);
    }
  }
  const auto none = AugmentedAlibi({0}, 2, 1);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(Made(none->per_head[0], 2).one_sided());
  EXPECT_FALSE(AugmentedAlibi({1, 2}, 4, 3).ok());
  EXPECT_FALSE(AugmentedAlibi({-1}, 4, 1).ok());
}

TEST(LieRe, OneCoordinateIsRelative) {
  // Two tiles of 3.
  const std::vector<double> lower = {0.5, -1, 2, 0.25, 1, -0.75};
  const auto spec = LieRe(3, 1, lower, 6);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const Generator generator = Made(spec->blocks, 6);
  EXPECT_TRUE(generator.relative());
  EXPECT_FALSE(generator.one_sided());
  Matrix skew(36);
  const int rows[] = {1, 2, 2}, columns[] = {0, 0, 1};
  for (int e = 0; e < 6; ++e) {
    const int i = e / 3 * 3 + rows[e % 3], j = e / 3 * 3 + columns[e % 3];
    skew[i * 6 + j] = lower[e];
    skew[j * 6 + i] = -lower[e];
  }
  // R(t) q . R(s) k with R(p) = exp(p A).
  const Matrix expected = Product(Transpose(SeriesExp(skew, 6, 3.5), 6),
                                  SeriesExp(skew, 6, 1.25), 6);
  EXPECT_LE(Difference(generator.Exp(2.25), expected), 1e-14);
}

TEST(LieRe, SeveralCoordinatesAreFlaggedNotRelative) {
  const std::vector<double> lower = {0.5, -1, 2, 0.25, 1, -0.75};
  const auto spec = LieRe(3, 2, lower, 3);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_TRUE(Validate(*spec).ok());
  const Generator generator = Made(spec->blocks, 3);
  EXPECT_FALSE(generator.relative());
  ASSERT_EQ(generator.free_rotations().size(), 1u);
  EXPECT_EQ(generator.drives().size(), 2u);
  // Coordinates (1, 2): sum p_a A_a has (1,0) 0.5 + 2 * 0.25 and so on.
  const Matrix sum = {0,          -(0.5 + 0.5),
                      -(-1 + 2),  //
                      0.5 + 0.5,  0,
                      -(2 - 1.5),  //
                      -1 + 2,     2 - 1.5,
                      0};
  const Matrix a = generator.Exp(
      [](const Drive& drive) { return 1.0 + drive.coordinate; }, {});
  EXPECT_LE(Difference(a, Transpose(SeriesExp(sum, 3, 1), 3)), 1e-15);
  EXPECT_LE(Difference(Product(a, Transpose(a, 3), 3), testing::Identity(3)),
            1e-15);
  EXPECT_FALSE(LieRe(3, 1, {1, 2}, 3).ok());
  EXPECT_FALSE(LieRe(4, 1, lower, 6).ok());
  EXPECT_FALSE(LieRe(3, 0, lower, 3).ok());
  // One tile's generators, for all of them.
  const auto alike = LieRe(3, 2, lower, 9);
  ASSERT_TRUE(alike.ok()) << alike.status();
  ASSERT_EQ(alike->blocks.size(), 3u);
  for (const Block& block : alike->blocks) {
    EXPECT_EQ(std::get<LieReBlock>(block.kind).generators, lower);
  }
}

TEST(Presets, RefuseSizesThatDoNotFit) {
  EXPECT_THAT(std::string(XPos({}, 5).status().message()),
              HasSubstr("preset.xpos: head_dim 5"));
  EXPECT_FALSE(XPos({.gamma = 0}, 4).ok());
  EXPECT_FALSE(RetNet({}, 0, 1).ok());
  EXPECT_FALSE(SelectiveRope(3, PairLayout::kHalfSplit).ok());
  EXPECT_FALSE(Gla(0).ok());
}

}  // namespace
}  // namespace attnd
