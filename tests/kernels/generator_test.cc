#include "kernels/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/matrix_oracle.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

using testing::Difference;
using testing::GeneratorMatrix;
using ::testing::HasSubstr;
using testing::Matrix;
using testing::Product;
using testing::SeriesExp;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::vector<std::vector<Block>>& BlockLists() {
  static const auto* lists = new std::vector<std::vector<Block>>{
      {},
      {IdentityBlock{.width = 3}},
      {RotaryBlock{}},
      {RotaryBlock{.rotary_dim = 4, .layout = PairLayout::kInterleaved}},
      {RotaryBlock{.base = 100, .rotary_dim = 6}},
      {RotationBlock{.frequencies = {0.5, -1.25}}},
      {RotationBlock{.frequencies = {2, 0},
                     .layout = PairLayout::kInterleaved}},
      {IdentityBlock{.width = 1}, RotationBlock{.frequencies = {0.75}},
       RotaryBlock{.rotary_dim = 2}},
  };
  return *lists;
}

TEST(Generator, ExpIsThePowerSeries) {
  for (const auto& blocks : BlockLists()) {
    const auto generator = Generator::Make(blocks, 6);
    ASSERT_TRUE(generator.ok()) << generator.status();
    for (double lag : {0.0, 1e-3, 1.0, -2.5, 4.0}) {
      EXPECT_LE(Difference(SeriesExp(GeneratorMatrix(*generator), 6, lag),
                           generator->Exp(lag)),
                1e-11);
    }
  }
}

TEST(Generator, ExpOfZeroIsExactlyTheIdentity) {
  const auto generator = Generator::Make({RotaryBlock{}}, 4);
  ASSERT_TRUE(generator.ok());
  EXPECT_EQ(generator->Exp(0),
            (Matrix{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}));
}

TEST(Generator, ExpObeysTheGroupLaw) {
  testing::Random random(7);
  for (const auto& blocks : BlockLists()) {
    const auto generator = Generator::Make(blocks, 6);
    ASSERT_TRUE(generator.ok()) << generator.status();
    for (int trial = 0; trial < 50; ++trial) {
      const double a = 200 * random.Uniform() - 100;
      const double b = 200 * random.Uniform() - 100;
      EXPECT_LE(Difference(generator->Exp(a + b),
                           Product(generator->Exp(a), generator->Exp(b), 6)),
                1e-12);
    }
  }
}

TEST(Generator, TurnsInTheDirectionOfRoFormer) {
  // q = (1,0) one unit after k = (0,1): score +sin 1.
  const auto generator =
      Generator::Make({RotationBlock{.frequencies = {1}}}, 2);
  ASSERT_TRUE(generator.ok());
  EXPECT_NEAR(generator->Exp(1)[0 * 2 + 1], 0.8414709848078965, 1e-15);
}

// RoFormer, written out: rotate q by its time and k by its time.
double HandRotatedScore(const std::vector<double>& q,
                        const std::vector<double>& k,
                        const std::vector<std::pair<int, int>>& pairs,
                        double t_q, double t_k) {
  const auto turned = [&](std::vector<double> x, double t) {
    for (size_t j = 0; j < pairs.size(); ++j) {
      const double w = std::pow(10000.0, -2.0 * j / (2.0 * pairs.size()));
      const auto [a, b] = pairs[j];
      const double x0 = x[a], x1 = x[b];
      x[a] = x0 * std::cos(t * w) - x1 * std::sin(t * w);
      x[b] = x0 * std::sin(t * w) + x1 * std::cos(t * w);
    }
    return x;
  };
  const std::vector<double> a = turned(q, t_q), b = turned(k, t_k);
  double sum = 0;
  for (size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

TEST(Generator, BothPairLayoutsMatchAHandWrittenRotation) {
  const std::vector<double> q = {1, 2, -3, 0.5}, k = {0.25, -1, 2, 1.5};
  for (PairLayout layout : {PairLayout::kHalfSplit, PairLayout::kInterleaved}) {
    const std::vector<std::pair<int, int>> pairs =
        layout == PairLayout::kHalfSplit
            ? std::vector<std::pair<int, int>>{{0, 2}, {1, 3}}
            : std::vector<std::pair<int, int>>{{0, 1}, {2, 3}};
    const auto generator = Generator::Make({RotaryBlock{.layout = layout}}, 4);
    ASSERT_TRUE(generator.ok());
    for (double t_q : {-5.0, 0.0, 3.0}) {
      for (double t_k : {-7.5, 1.0}) {
        const Matrix a = generator->Exp(t_q - t_k);
        double score = 0;
        for (int i = 0; i < 4; ++i) {
          for (int j = 0; j < 4; ++j) score += q[i] * a[i * 4 + j] * k[j];
        }
        EXPECT_NEAR(score, HandRotatedScore(q, k, pairs, t_q, t_k), 1e-13);
      }
    }
  }
}

TEST(Generator, PartialRotaryDividesTheExponentByItsOwnDim) {
  const auto generator = Generator::Make({RotaryBlock{.rotary_dim = 4}}, 16);
  ASSERT_TRUE(generator.ok());
  ASSERT_EQ(generator->planes().size(), 2u);
  EXPECT_DOUBLE_EQ(generator->planes()[1].omega, 0.01);
  EXPECT_EQ(generator->planes()[1].first, 1);
  EXPECT_EQ(generator->planes()[1].second, 3);
}

TEST(Generator, PlanesAreDisjoint) {
  for (const auto& blocks : BlockLists()) {
    const auto generator = Generator::Make(blocks, 6);
    ASSERT_TRUE(generator.ok());
    std::vector<int> used(6);
    for (const Plane& p : generator->planes()) {
      EXPECT_EQ(used.at(p.first)++, 0);
      EXPECT_EQ(used.at(p.second)++, 0);
    }
  }
}

TEST(Generator, RefusesMoreChannelsThanTheHeadHas) {
  EXPECT_FALSE(Generator::Make({IdentityBlock{.width = 5}}, 4).ok());
  EXPECT_FALSE(Generator::Make({RotaryBlock{.rotary_dim = 6}}, 4).ok());
  EXPECT_FALSE(
      Generator::Make({RotationBlock{.frequencies = {1, 2, 3}}}, 4).ok());
  EXPECT_FALSE(
      Generator::Make({IdentityBlock{.width = 2}, IdentityBlock{.width = 2},
                       RotationBlock{.frequencies = {1}}},
                      4)
          .ok());
  EXPECT_FALSE(Generator::Make({IdentityBlock{.width = 1 << 30},
                                IdentityBlock{.width = 1 << 30},
                                IdentityBlock{.width = 1 << 30}},
                               4)
                   .ok());
}

TEST(Generator, RefusesAnOddNumberOfRotaryChannels) {
  EXPECT_FALSE(Generator::Make({RotaryBlock{}}, 5).ok());
  EXPECT_FALSE(
      Generator::Make({IdentityBlock{.width = 1}, RotaryBlock{}}, 4).ok());
  EXPECT_TRUE(
      Generator::Make({IdentityBlock{.width = 1}, RotaryBlock{}}, 5).ok());
}

TEST(RotaryFrequencies, AreThePublishedLadder) {
  const std::vector<double> w = RotaryFrequencies(8, 10000);
  ASSERT_EQ(w.size(), 4u);
  EXPECT_DOUBLE_EQ(w[0], 1);
  EXPECT_DOUBLE_EQ(w[1], 0.1);
  EXPECT_DOUBLE_EQ(w[2], 0.01);
  EXPECT_DOUBLE_EQ(w[3], 0.001);
}

// Frequencies of Llama 3 as torch 2.15 computes them in float32, where they
// differ from the rounded double.
TEST(RotaryFrequencies, FloatPowersAreThoseOfTorch) {
  const std::vector<double> w = RotaryFrequencies(128, 500000, true);
  const std::pair<int, double> torch[] = {{0, 1},
                                          {2, 0x1.53c38cp-1},
                                          {4, 0x1.c2ef78p-2},
                                          {8, 0x1.8d2760p-3},
                                          {10, 0x1.078d40p-3},
                                          {14, 0x1.d03ccep-5},
                                          {19, 0x1.4d1272p-6}};
  for (const auto& [plane, frequency] : torch) {
    EXPECT_EQ(w[plane], frequency) << plane;
    EXPECT_NEAR(w[plane], RotaryFrequencies(128, 500000)[plane],
                2e-7 * frequency);
  }
}

// The recursive program published with ALiBi.
std::vector<double> RecursiveSlopes(int n) {
  int power = 1;
  while (2 * power <= n) power *= 2;
  std::vector<double> slopes;
  slopes.reserve(n);
  const double start = std::pow(2, -std::pow(2, -(std::log2(power) - 3)));
  for (int i = 0; i < power; ++i) slopes.push_back(std::pow(start, i + 1));
  if (power == n) return slopes;
  const std::vector<double> finer = RecursiveSlopes(2 * power);
  for (int i = 0; static_cast<int>(slopes.size()) < n; i += 2) {
    slopes.push_back(finer[i]);
  }
  return slopes;
}

TEST(PublishedSlopes, AreTheRecursiveProgramsForEveryHeadCount) {
  for (int n = 1; n <= 112; ++n) {
    const std::vector<double> expected = RecursiveSlopes(n);
    const std::vector<double> got = PublishedSlopes(n);
    ASSERT_EQ(got.size(), expected.size());
    for (int h = 0; h < n; ++h) {
      EXPECT_NEAR(got[h] / expected[h], 1, 1e-13) << n << " heads, head " << h;
    }
  }
}

TEST(PublishedSlopes, SevenHeadsInterleave) {
  EXPECT_EQ(PublishedSlopes(7),
            (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125,
                                 0.03125}));
}

TEST(PublishedSlopes, BiasMaxIsTheExponentOfTheLastHead) {
  EXPECT_EQ(PublishedSlopes(2, 4), (std::vector<double>{0.25, 0.0625}));
}

struct BadSpec {
  std::string path;
  EncodingSpec spec;
};

TEST(Validate, NamesTheFieldThatIsWrong) {
  const EncodingSpec none;
  std::vector<BadSpec> bad;
  const auto add_block = [&](std::string path, Block block) {
    BadSpec b{std::move(path), none};
    b.spec.blocks = {IdentityBlock{}, std::move(block)};
    bad.push_back(std::move(b));
  };
  const auto add_bias = [&](std::string path, AlibiTerm term) {
    BadSpec b{std::move(path), none};
    b.spec.biases = {std::move(term)};
    bad.push_back(std::move(b));
  };
  add_block("blocks[1].identity.width", IdentityBlock{.width = 0});
  add_block("blocks[1].identity.width", IdentityBlock{.width = -1});
  for (double base : {0.0, -2.0, kNaN, kInfinity}) {
    add_block("blocks[1].rotary.base", RotaryBlock{.base = base});
  }
  add_block("blocks[1].rotary.rotary_dim", RotaryBlock{.rotary_dim = 3});
  add_block("blocks[1].rotary.rotary_dim", RotaryBlock{.rotary_dim = -2});
  add_block("blocks[1].rotation.frequencies[1]",
            RotationBlock{.frequencies = {1, kNaN}});
  add_block("blocks[1].rotation.frequencies[0]",
            RotationBlock{.frequencies = {-kInfinity}});
  add_bias("biases[0].alibi.slopes[0]", {.slopes = {-1}});
  add_bias("biases[0].alibi.slopes[1]", {.slopes = {1, kNaN}});
  add_bias("biases[0].alibi.slopes[0]", {.slopes = {kInfinity}});
  add_bias("biases[0].alibi.bias_max", {.slopes = {}, .bias_max = kNaN});
  add_bias("biases[0].alibi.bias_max", {.slopes = {}, .bias_max = -1});
  for (const BadSpec& b : bad) {
    const absl::Status status = Validate(b.spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << b.path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(b.path));
  }
}

TEST(Validate, TakesGoodSpecs) {
  EXPECT_TRUE(Validate({}).ok());
  for (const auto& blocks : BlockLists()) {
    EncodingSpec spec;
    spec.blocks = blocks;
    spec.biases = {AlibiTerm{.slopes = {0, 0.5}}};
    EXPECT_TRUE(Validate(spec).ok()) << Validate(spec);
  }
}

}  // namespace
}  // namespace attnd
