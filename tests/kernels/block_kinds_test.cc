// What each kind of block is by itself.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/generator.h"
#include "tests/kernels/made_generator.h"
#include "tests/kernels/matrix_oracle.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

using testing::Difference;
using testing::Made;
using testing::Matrix;
using testing::Product;
using testing::Random;
using testing::SeriesExp;

TEST(Decay, LongSpansNeitherOverflowNorVanishEarly) {
  const Generator generator = Made({DecayBlock{.rates = {2}}}, 1);
  EXPECT_NEAR(generator.Exp(300)[0] / std::exp(-600), 1, 1e-12);
  EXPECT_NEAR(generator.Exp(0.1)[0], std::exp(-0.2), 1e-16);
  EXPECT_EQ(generator.Exp(1e6)[0], 0);
  EXPECT_EQ(generator.Exp(1e300)[0], 0);
}

TEST(Decay, OneRateServesTheWidthOrTheRest) {
  EXPECT_EQ(Made({DecayBlock{.rates = {1}, .width = 3}}, 5).chains().size(),
            3u);
  EXPECT_EQ(
      Made({IdentityBlock{}, DecayBlock{.rates = {1}}}, 5).chains().size(), 4u);
}

TEST(DampedRotation, BothChannelsOfAPlaneDecayAlike) {
  const Generator generator =
      Made({DampedRotationBlock{.frequencies = {1, 2}, .rates = {0.5, 0}}}, 4);
  ASSERT_EQ(generator.chains().size(), 2u);
  EXPECT_EQ(generator.chains()[0].channels[0], 0);
  EXPECT_EQ(generator.chains()[1].channels[0], 2);
  const Matrix a = generator.Exp(3);
  EXPECT_NEAR(std::hypot(a[0], a[2]), std::exp(-1.5), 1e-15);
}

TEST(RealJordan, FiniteDifferencesOfOrderMVanishWithoutDecay) {
  for (int m = 2; m <= 4; ++m) {
    const Generator generator =
        Made({RealJordanBlock{.size = m, .rates = {0}, .tau = 4}}, m);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < m; ++j) {
        double difference = 0, binomial = 1;
        for (int k = 0; k <= m; ++k) {
          difference += (k % 2 == 0 ? 1 : -1) * binomial *
                        generator.Exp(3 + 0.5 * k)[i * m + j];
          binomial *= static_cast<double>(m - k) / (k + 1);
        }
        EXPECT_NEAR(difference, 0, 1e-14) << m << " " << i << " " << j;
      }
    }
  }
}

TEST(RealJordan, EnvelopePeaksAtOrderOverRate) {
  const Generator generator =
      Made({RealJordanBlock{.size = 3, .rates = {0.1}}}, 3);
  const auto entry = [&](double lag) { return generator.Exp(lag)[2]; };
  EXPECT_GT(entry(20), entry(19.9));
  EXPECT_GT(entry(20), entry(20.1));
}

// Constant-velocity and constant-acceleration motion; Gaussian bias -D^2 / 2.
TEST(RealJordan, ReachesTheExponentialPolynomials) {
  const Generator generator =
      Made({RealJordanBlock{.size = 3, .rates = {0}}}, 3);
  for (double lag : {0.5, 3.0, 1e6}) {
    const Matrix a = generator.Exp(lag);
    EXPECT_EQ(a[1], lag);
    EXPECT_DOUBLE_EQ(-a[2], -lag * lag / 2);
  }
}

TEST(RealJordan, TakesAsManyChainsAsFit) {
  EXPECT_EQ(Made({RealJordanBlock{.size = 3, .rates = {1}}}, 8).chains().size(),
            2u);
  EXPECT_FALSE(
      Generator::Make({RealJordanBlock{.size = 4, .rates = {1}}}, 3).ok());
}

// P13: the first jet is eta D R, i.e. -eta J^-1 d/dw of the rotation block.
TEST(ComplexJordan, JetsAreDerivativesByFrequency) {
  const double w = 1.25, rate = 0.25, eta = 0.5, step = 1e-5;
  const auto rotation = [&](double omega, double lag) {
    return Made({DampedRotationBlock{.frequencies = {omega}, .rates = {rate}}},
                2)
        .Exp(lag);
  };
  const Generator generator =
      Made({ComplexJordanBlock{
               .size = 2, .frequencies = {w}, .rates = {rate}, .eta = eta}},
           4);
  const Matrix j = {0, -1, 1, 0};
  for (double lag : {0.5, 3.0, 10.0}) {
    const Matrix a = generator.Exp(lag);
    const Matrix up = rotation(w + step, lag), down = rotation(w - step, lag);
    Matrix derivative(4);
    for (int e = 0; e < 4; ++e) derivative[e] = (up[e] - down[e]) / (2 * step);
    // d/dw R(-w D) = -D J R, so eta D R = eta J d/dw R.
    const Matrix jet = Product(j, derivative, 2);
    for (int row = 0; row < 2; ++row) {
      for (int column = 0; column < 2; ++column) {
        EXPECT_NEAR(a[row * 4 + 2 + column], eta * jet[row * 2 + column],
                    1e-8 * (1 + lag * lag * lag));
        EXPECT_EQ(a[(2 + row) * 4 + column], 0);
      }
    }
  }
}

TEST(ComplexJordan, WithoutCouplingItIsADampedRotation) {
  const Generator jordan =
      Made({ComplexJordanBlock{
               .size = 2, .frequencies = {1.5}, .rates = {0.5}, .eta = 0}},
           4);
  const Generator damped =
      Made({DampedRotationBlock{.frequencies = {1.5, 1.5},
                                .rates = {0.5},
                                .layout = PairLayout::kInterleaved}},
           4);
  EXPECT_EQ(jordan.Exp(2.5), damped.Exp(2.5));
  EXPECT_EQ(jordan.chains().size(), 4u);
}

TEST(ComplexJordan, WithoutFrequencyItIsTwoRealChains) {
  const Generator complex =
      Made({ComplexJordanBlock{
               .size = 3, .frequencies = {0}, .rates = {0.5}, .eta = 0.25}},
           6);
  const Generator real = Made(
      {RealJordanBlock{.size = 3, .rates = {0.5}, .tau = 4, .chains = 1}}, 3);
  const Matrix a = complex.Exp(5), b = real.Exp(5);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_DOUBLE_EQ(a[2 * i * 6 + 2 * j], b[i * 3 + j]);
      EXPECT_DOUBLE_EQ(a[(2 * i + 1) * 6 + 2 * j + 1], b[i * 3 + j]);
      EXPECT_EQ(a[2 * i * 6 + 2 * j + 1], 0);
    }
  }
}

TEST(SkewRank2, IsRodriguesFormulaHoweverParallelAAndBAre) {
  Random random(8);
  for (double apart : {1.0, 1e-6, 1e-12, 1e-17, 0.0}) {
    std::vector<double> a(5), b(5);
    for (int i = 0; i < 5; ++i) {
      a[i] = random.Normal();
      b[i] = a[i] + apart * random.Normal();
    }
    const auto generator =
        Generator::Make({SkewRank2Block{.a = a, .b = b, .frequency = 2}}, 5);
    ASSERT_TRUE(generator.ok()) << generator.status();
    Matrix x(25);
    for (int i = 0; i < 5; ++i) {
      for (int j = 0; j < 5; ++j)
        x[i * 5 + j] = 2 * (a[i] * b[j] - b[i] * a[j]);
    }
    for (double lag : {0.25, 3.0}) {
      EXPECT_LE(Difference(generator->Exp(lag), SeriesExp(x, 5, lag)), 1e-13)
          << "apart " << apart;
    }
    EXPECT_FALSE(generator->one_sided());
    EXPECT_NEAR(generator->condition(), 1, 1e-14);
  }
  EXPECT_TRUE(Made({SkewRank2Block{.a = {0, 0, 0}, .b = {1, 2, 3}}}, 3)
                  .planes()
                  .empty());
}

TEST(SkewRank2, TwoChannelsAreAPlaneWithoutABasis) {
  const Generator generator =
      Made({SkewRank2Block{.a = {2, 0}, .b = {0, 3}, .frequency = 0.5}}, 2);
  EXPECT_TRUE(generator.basis().empty());
  EXPECT_EQ(generator.planes()[0].omega, 3);
}

}  // namespace
}  // namespace attnd
