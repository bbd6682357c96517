// Every kind of block: the group law, the series, what each is by itself, and
// the statements about bounds and sides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/basis.h"
#include "kernels/generator.h"
#include "tests/kernels/matrix_oracle.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

using testing::Difference;
using testing::GeneratorMatrix;
using ::testing::HasSubstr;
using testing::Identity;
using testing::LargestEntry;
using testing::Matrix;
using testing::Product;
using testing::Random;
using testing::RandomMatrix;
using testing::SeriesExp;
using testing::SeriesPhi1;
using testing::Transpose;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr int kDim = 8;

struct NamedBlocks {
  std::string name;
  std::vector<Block> blocks;
  bool one_sided = false;
  bool bounded = true;
};
void PrintTo(const NamedBlocks& blocks, std::ostream* out) {
  *out << blocks.name;
}

std::vector<NamedBlocks> BlockLists() {
  return {
      {"nope", {}},
      {"rope", {RotaryBlock{}}},
      {"partial", {IdentityBlock{.width = 2}, RotaryBlock{.rotary_dim = 4}}},
      {"rotation", {RotationBlock{.frequencies = {0.5, -2, 0}}}},
      {"vectors",
       {RotationBlock{.frequencies = {1, 0.5, 0, -1}, .coordinates = 2}}},
      {"decay", {DecayBlock{.rates = {0.5, 0, 2}}}, true},
      {"decay_0", {DecayBlock{.rates = {0}}}},
      {"damped",
       {DampedRotationBlock{.frequencies = {1, 3},
                            .rates = {0.25},
                            .layout = PairLayout::kHalfSplit}},
       true},
      {"jordan_2", {RealJordanBlock{.size = 2, .rates = {0}}}, true, false},
      {"jordan_3",
       {RealJordanBlock{.size = 3, .rates = {0.5, 0.25}, .tau = 2}},
       true},
      {"jordan_4",
       {RealJordanBlock{.size = 4, .rates = {0.125}, .tau = 0.5}},
       true},
      {"complex_2",
       {ComplexJordanBlock{
           .size = 2, .frequencies = {1, 0.5}, .rates = {0.25, 0.5}}},
       true},
      {"complex_3",
       {ComplexJordanBlock{
           .size = 3, .frequencies = {-2}, .rates = {0.1}, .eta = 0.3}},
       true},
      {"complex_4",
       {ComplexJordanBlock{.size = 4, .frequencies = {1}, .rates = {0}}},
       true,
       false},
      {"skew_rank_2",
       {SkewRank2Block{
           .a = {1, 2, 0, -1, 0.5}, .b = {0, 1, 1, 1, -2}, .frequency = 0.5}}},
      {"dense",
       {DenseMatrixBlock{.dim = 3,
                         .matrix = {-2, 1, 0.5, 1, -3, 0, 0.25, 1, -1.5}}},
       true},
      {"mixed",
       {RotationBlock{.frequencies = {0.75}},
        DecayBlock{.rates = {1}, .width = 1},
        RealJordanBlock{.size = 2, .rates = {0.5}, .chains = 1},
        DampedRotationBlock{.frequencies = {1}, .rates = {0.5}}},
       true},
  };
}

class Blocks : public ::testing::TestWithParam<NamedBlocks> {
 protected:
  Generator Made(bool averaged = false,
                 const std::vector<double>& basis = {}) const {
    std::vector<Block> blocks = GetParam().blocks;
    for (Block& block : blocks) block.averaged = averaged;
    auto generator = Generator::Make(blocks, kDim, 0, basis);
    EXPECT_TRUE(generator.ok()) << generator.status();
    return generator.ok() ? *std::move(generator) : Generator();
  }
};

TEST_P(Blocks, ExpIsThePowerSeries) {
  const Generator generator = Made();
  const Matrix x = GeneratorMatrix(generator);
  for (double lag : {0.0, 1e-9, 0.25, 1.0, -1.5, 30.0}) {
    const Matrix expected = SeriesExp(x, kDim, lag);
    EXPECT_LE(Difference(generator.Exp(lag), expected),
              1e-13 * std::max(1.0, LargestEntry(expected)))
        << "lag " << lag;
  }
}

TEST_P(Blocks, AverageIsThePowerSeries) {
  const Generator generator = Made(true);
  if (!GetParam().blocks.empty()) {
    EXPECT_TRUE(generator.averaged());
  }
  const Matrix x = GeneratorMatrix(generator);
  for (double lag : {0.0, 1e-12, 1e-3, 0.25, 1.9, 2.1, -1.5, 30.0}) {
    const Matrix expected = SeriesPhi1(x, kDim, lag);
    EXPECT_LE(Difference(generator.Exp(lag), expected),
              1e-13 * std::max(1.0, LargestEntry(expected)))
        << "lag " << lag;
  }
}

TEST_P(Blocks, ExpOfZeroIsExactlyTheIdentity) {
  Random random(3);
  EXPECT_EQ(Made().Exp(0), Identity(kDim));
  EXPECT_EQ(Made(true).Exp(0), Identity(kDim));
  EXPECT_EQ(Made(false, RandomMatrix(kDim, random)).Exp(0), Identity(kDim));
}

TEST_P(Blocks, ExpObeysTheGroupLaw) {
  const Generator generator = Made();
  Random random(5);
  for (int trial = 0; trial < 40; ++trial) {
    const double a = std::exp2(12 * random.Uniform() - 6);
    const double b = std::exp2(12 * random.Uniform() - 6);
    const Matrix product = Product(generator.Exp(a), generator.Exp(b), kDim);
    const Matrix sum = generator.Exp(a + b);
    // Of the largest terms: a Jordan chain multiplies powers of the lag.
    const double size =
        LargestEntry(generator.Exp(a)) * LargestEntry(generator.Exp(b));
    EXPECT_LE(Difference(sum, product),
              64 * kEpsilon * (1 + a + b) * std::max(1.0, size))
        << "lags " << a << " and " << b;
  }
}

TEST_P(Blocks, BasisIsASimilarity) {
  Random random(6);
  const Matrix p = RandomMatrix(kDim, random);
  const InverseBasis inverse = Invert(p, kDim);
  const Generator plain = Made(), inside = Made(false, p);
  EXPECT_LE(std::abs(inside.condition() / inverse.condition - 1),
            plain.basis().empty() ? 1e-10 : 1e10);
  for (double lag : {0.01, 1.0, 20.0}) {
    const Matrix expected =
        Product(Product(p, plain.Exp(lag), kDim), inverse.inverse, kDim);
    EXPECT_LE(Difference(inside.Exp(lag), expected),
              1e-13 * inside.condition() *
                  std::max(1.0, LargestEntry(plain.Exp(lag))));
  }
}

TEST_P(Blocks, SidesAndBoundsAreWhatTheEigenvaluesSay) {
  const Generator generator = Made();
  EXPECT_EQ(generator.one_sided(), GetParam().one_sided);
  EXPECT_EQ(generator.bounded(), GetParam().bounded);
  EXPECT_TRUE(generator.relative());
  double largest = 0;
  for (double lag = 1; lag < 1e9; lag *= 10) {
    largest = std::max(largest, LargestEntry(generator.Exp(lag)));
  }
  EXPECT_EQ(largest < 1000, generator.bounded()) << largest;
  // Bounded for all lags and both signs exactly when it is no one-sided part.
  EXPECT_EQ(LargestEntry(generator.Exp(-1e3)) > 100, generator.one_sided());
}

TEST_P(Blocks, WithoutOneSidedPartsTheNormIsKept) {
  const Generator generator = Made();
  if (generator.one_sided()) return;
  for (double lag : {0.5, 1e3}) {
    const Matrix a = generator.Exp(lag);
    EXPECT_LE(Difference(Product(Transpose(a, kDim), a, kDim), Identity(kDim)),
              1e-14);
  }
}

TEST_P(Blocks, TwoSidedRuleTurnsBackAndDecaysOn) {
  const Generator generator = Made();
  for (double lag : {0.5, 7.0}) {
    EXPECT_EQ(generator.Exp(lag, true), generator.Exp(lag));
    const Matrix back = generator.Exp(-lag, true);
    EXPECT_LE(LargestEntry(back), 100 + lag * lag * lag);
    if (!generator.one_sided()) {
      EXPECT_EQ(back, generator.Exp(-lag));
    } else if (generator.planes().empty() && generator.basis().empty()) {
      EXPECT_EQ(back, generator.Exp(lag));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Blocks, ::testing::ValuesIn(BlockLists()),
                         [](const auto& info) { return info.param.name; });

// ---- each by itself ---------------------------------------------------------

Generator Made(const std::vector<Block>& blocks, int dim) {
  auto generator = Generator::Make(blocks, dim);
  EXPECT_TRUE(generator.ok()) << generator.status();
  return generator.ok() ? *std::move(generator) : Generator();
}

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
