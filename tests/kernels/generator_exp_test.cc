// Generators around their blocks: bases, averages, lags and angles of drives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/basis.h"
#include "kernels/generator.h"
#include "tests/kernels/made_generator.h"
#include "tests/kernels/matrix_oracle.h"

namespace attnd {
namespace {

using testing::Difference;
using ::testing::HasSubstr;
using testing::Identity;
using testing::Made;
using testing::Matrix;
using testing::Product;
using testing::Transpose;

TEST(Basis, CayleyIsOrthogonal) {
  const auto p = CayleyBasis(std::vector<double>{0.5, -2, 100}, 3, "basis");
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_LE(Difference(Product(*p, Transpose(*p, 3), 3), Identity(3)), 1e-15);
  // (I + S) P = I - S.
  const Matrix plus = {1, -0.5, 2, 0.5, 1, -100, -2, 100, 1};
  const Matrix minus = {1, 0.5, -2, -0.5, 1, 100, 2, -100, 1};
  EXPECT_LE(Difference(Product(plus, *p, 3), minus), 1e-13);
  EXPECT_FALSE(CayleyBasis(std::vector<double>{1, 2}, 3, "basis").ok());
  EXPECT_FALSE(CayleyBasis(std::vector<double>{NAN}, 2, "basis").ok());
}

TEST(Basis, ConditionIsLimitedAndStated) {
  const std::vector<Block> rope = {RotaryBlock{}};
  const auto near = Generator::Make(rope, 2, 0, {1, 0, 0, 1e-5});
  ASSERT_TRUE(near.ok()) << near.status();
  EXPECT_NEAR(near->condition(), 1e5, 1e-3);
  for (const Matrix& bad : std::vector<Matrix>{
           {1, 0, 0, 1e-7}, {1, 1, 1, 1}, {0, 0, 0, 0}, {1, NAN, 0, 1}, {1}}) {
    const auto refused = Generator::Make(rope, 2, 0, bad);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr("basis.matrix"));
  }
}

TEST(Averaged, DoesNotMixWithExponentials) {
  const Block averaged(RotationBlock{.frequencies = {1}}, {}, true);
  const auto mixed =
      Generator::Make({averaged, RotationBlock{.frequencies = {1}}}, 4);
  ASSERT_FALSE(mixed.ok());
  EXPECT_THAT(std::string(mixed.status().message()),
              HasSubstr("blocks[1].averaged: false, expected true"));
  EXPECT_TRUE(Generator::Make({IdentityBlock{}, averaged}, 4).ok());
}

// ContiFormer with linear dynamics: (1/D) int_0^D q^T exp(uX) k du.
TEST(Averaged, IsTheMeanOverTheLag) {
  const std::vector<Block> blocks = {ComplexJordanBlock{
      .size = 2, .frequencies = {1}, .rates = {0.125}, .eta = 0.5}};
  std::vector<Block> averaged = blocks;
  averaged[0].averaged = true;
  const Generator plain = Made(blocks, 4), mean = Made(averaged, 4);
  const double lag = 3;
  const int steps = 512;
  Matrix sum(16);
  for (int i = 0; i <= steps; ++i) {
    const double weight = i == 0 || i == steps ? 1 : i % 2 == 1 ? 4 : 2;
    const Matrix a = plain.Exp(lag * i / steps);
    for (int e = 0; e < 16; ++e) sum[e] += weight * a[e] / (3.0 * steps);
  }
  EXPECT_LE(Difference(mean.Exp(lag), sum), 1e-10);
}

TEST(Exp, TakesALagPerDriveAndExactAngles) {
  const Generator generator =
      Made({Block(DampedRotationBlock{.frequencies = {2}, .rates = {0.5}},
                  {.coordinate = 1})},
           2);
  const auto lag = [](const Drive& drive) { return 1.0 + drive.coordinate; };
  EXPECT_EQ(generator.Exp(lag, {}), generator.Exp(2));
  const std::vector<double> angles = {0.75};
  const Matrix a = generator.Exp(lag, angles);
  EXPECT_NEAR(a[0], std::exp(-1) * std::cos(0.75), 1e-16);
  EXPECT_NEAR(a[1], std::exp(-1) * std::sin(0.75), 1e-16);
}

TEST(Exp, AnglesOfAnAverageKeepTheirWholeTurnsInTheDivisor) {
  const double omega = 1000;
  const Generator generator =
      Made({Block(RotationBlock{.frequencies = {omega}}, {}, true)}, 2);
  const auto lag = [](const Drive&) { return 1.0; };
  const std::vector<double> angles = {std::remainder(omega, 2 * M_PI)};
  EXPECT_LE(Difference(generator.Exp(lag, angles), generator.Exp(1)), 1e-15);
}

}  // namespace
}  // namespace attnd
