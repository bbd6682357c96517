// What holds for every kind of block: the group law, the series, bases, and the
// statements about bounds and sides.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/basis.h"
#include "kernels/generator.h"
#include "tests/kernels/matrix_oracle.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

using testing::Difference;
using testing::GeneratorMatrix;
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
  const Matrix x = GeneratorMatrix(generator);
  // Of nothing that moves there is nothing to average.
  EXPECT_EQ(generator.averaged(), LargestEntry(x) > 0);
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

}  // namespace
}  // namespace attnd
