// What kernels/README.md answers about the class exp(DX): which assumptions
// force it, which pairs of matrices are in it, what it can express. Each answer
// there names its test here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "kernels/generator.h"
#include "tests/kernels/answer.h"
#include "tests/kernels/matrix_oracle.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

constexpr double kTolerance = 1e-10;
constexpr double kTimes[] = {-1.5, -0.25, 0, 0.5, 1, 2.75};

// Maps of q and of k at a time: the score is (F q)^T (G k).
struct Pair {
  std::function<Matrix(double)> query_transposed;  // F(t)^T
  std::function<Matrix(double)> key;               // G(s)
};

// How much F(t)^T G(s) changes when both times move together, at most.
double ShiftDefect(const Pair& pair, int n) {
  double worst = 0;
  for (double t : kTimes) {
    for (double s : kTimes) {
      const Matrix here = Product(pair.query_transposed(t), pair.key(s), n);
      for (double c : kTimes) {
        worst = std::max(worst,
                         Difference(here, Product(pair.query_transposed(t + c),
                                                  pair.key(s + c), n)));
      }
    }
  }
  return worst;
}

// exp(tX) H and H^-1 exp(-sX): all there is (theorem T2 of the text).
Pair PairOf(const Matrix& x, const Matrix& h, const Matrix& h_inverse, int n) {
  return {[=](double t) { return Product(SeriesExp(x, n, t), h, n); },
          [=](double s) { return Product(h_inverse, SeriesExp(x, n, -s), n); }};
}

// Any X and any constant invertible H make a pair that sees differences only,
// and the group law follows from one invertible value; nobody assumed it.
TEST(Theory, DifferencesAndOneInvertibleValueForceTheGroupLaw) {
  const int n = 3;
  Random random(1);
  for (int trial = 0; trial < 10; ++trial) {
    Matrix x = RandomMatrix(n, random);
    // Of norm 1, so that nothing grows beyond e^6 on the way.
    const double norm = FrobeniusNorm(x);
    for (double& entry : x) entry /= norm;
    const Matrix turn = RandomTurn(n, random);
    const Pair pair = PairOf(x, turn, Transpose(turn, n), n);
    EXPECT_LE(ShiftDefect(pair, n), kTolerance);
    const auto a = [&](double lag) {
      return Product(pair.query_transposed(lag), pair.key(0), n);
    };
    EXPECT_LE(Difference(a(0), Identity(n)), 1e-13);
    EXPECT_LE(Difference(Product(a(0.75), a(1.5), n), a(2.25)),
              kTolerance * LargestEntry(a(2.25)) + kTolerance);
  }
}

// Assumption by assumption: without dependence on differences there is no group
// (sinusoids that are added, learned tables); F^T G = I alone is not enough.
TEST(Theory, WhatDoesNotSeeDifferencesAloneIsNoGroup) {
  const int n = 2;
  // F(t)^T G(t) = I, but t -> F(t)^T F(0)^-T is a shear by t^2: no group.
  const auto shear = [](double by) { return Matrix{1, by, 0, 1}; };
  const Pair bent = {[&](double t) { return shear(t * t); },
                     [&](double s) { return shear(-s * s); }};
  EXPECT_EQ(Product(bent.query_transposed(2.75), bent.key(2.75), n),
            Identity(n));
  EXPECT_GT(ShiftDefect(bent, n), 1);
  // Bounded shears of stabilised Jordan blocks, tau(t) = t / (1 + |t|).
  const auto bounded = [&](double t) { return shear(t / (1 + std::abs(t))); };
  const Pair stabilised = {
      bounded, [&](double s) { return shear(-s / (1 + std::abs(s))); }};
  EXPECT_GT(ShiftDefect(stabilised, n), 0.1);
  // The straight shear is one.
  const Pair straight = {[&](double t) { return shear(t); },
                         [&](double s) { return shear(-s); }};
  EXPECT_LE(ShiftDefect(straight, n), 1e-15);
}

// On whole positions A(n) = A(1)^n with any invertible A(1) will do: the parity
// (-1)^n has no real one-parameter group through it, because -1 has no real
// logarithm in one dimension. In two it has: half a turn.
TEST(Theory, WholePositionsAllowMoreThanRealTimes) {
  for (int a = -3; a <= 3; ++a) {
    for (int b = -3; b <= 3; ++b) {
      EXPECT_EQ(std::pow(-1, a) * std::pow(-1, b), std::pow(-1, a + b));
    }
  }
  for (double x : {-3.0, 0.0, 3.0}) {
    EXPECT_GT(SeriesExp({x}, 1, 1)[0], 0);  // never -1
  }
  const Matrix half_turn = SeriesExp({0, M_PI, -M_PI, 0}, 2, 1);
  EXPECT_LE(Difference(half_turn, {-1, 0, 0, -1}), 1e-14);
}

// Bounded in both directions exactly when X is a skew matrix in some basis: of
// the blocks, rotations alone.
TEST(Theory, OnlyTurnsAreBoundedInBothDirections) {
  struct Case {
    Block block;
    bool past, future;
  };
  const Case cases[] = {
      {RotationBlock{.frequencies = {1}}, true, true},
      {DecayBlock{.rates = {0.5, 0.5}}, true, false},
      {DampedRotationBlock{.frequencies = {1}, .rates = {0.5}}, true, false},
      {RealJordanBlock{.size = 2, .rates = {0}}, false, false},
      {RealJordanBlock{.size = 2, .rates = {0.5}}, true, false}};
  for (const Case& c : cases) {
    const auto generator = Generator::Make({c.block}, 2);
    ASSERT_TRUE(generator.ok()) << generator.status();
    EXPECT_EQ(generator->bounded(), c.past);
    EXPECT_EQ(LargestEntry(generator->Exp(1000)) < 10, c.past);
    EXPECT_EQ(LargestEntry(generator->Exp(-1000)) < 10, c.future);
    EXPECT_EQ(generator->one_sided(), !c.future);
  }
}

// X = R + W + N: decay, turn and shear commute, so that the turn may be taken
// from an absolute phase while the others stay local.
TEST(Theory, DecayTurnAndShearCommute) {
  const auto block = [](double rate, double frequency, double eta) {
    const auto generator =
        Generator::Make({ComplexJordanBlock{.size = 3,
                                            .frequencies = {frequency},
                                            .rates = {rate},
                                            .eta = eta}},
                        6);
    return generator->Exp(1.75);
  };
  const Matrix decay = block(0.3, 0, 0), turn = block(0, 2, 0);
  const Matrix shear = block(0, 0, 0.8);
  const Matrix whole = block(0.3, 2, 0.8);
  EXPECT_LE(Difference(Product(decay, Product(turn, shear, 6), 6), whole),
            1e-14);
  EXPECT_LE(Difference(Product(shear, Product(decay, turn, 6), 6), whole),
            1e-14);
}

// Reachable as a bias through constant channels: solutions of linear
// recurrences, of the order of the channels spent. -D and -D^2 are, ln(1 + D)
// is not: no recurrence of any order up to 6 fits it.
TEST(Theory, BiasesOfTheClassSolveLinearRecurrences) {
  // The determinant of the Hankel matrix of samples vanishes from the order on.
  const auto hankel = [](const std::function<double(double)>& bias, int order) {
    std::vector<long double> m(order * order);
    for (int i = 0; i < order; ++i) {
      for (int j = 0; j < order; ++j) m[i * order + j] = bias(i + j);
    }
    long double determinant = 1;
    for (int k = 0; k < order; ++k) {
      int pivot = k;
      for (int i = k + 1; i < order; ++i) {
        if (std::abs(m[i * order + k]) > std::abs(m[pivot * order + k])) {
          pivot = i;
        }
      }
      for (int j = 0; j < order; ++j) {
        std::swap(m[k * order + j], m[pivot * order + j]);
      }
      if (m[k * order + k] == 0) return 0.0L;
      determinant *= m[k * order + k];
      for (int i = k + 1; i < order; ++i) {
        const long double factor = m[i * order + k] / m[k * order + k];
        for (int j = k; j < order; ++j) {
          m[i * order + j] -= factor * m[k * order + j];
        }
      }
    }
    return determinant;
  };
  const auto linear = [](double d) { return -d; };
  const auto square = [](double d) { return -d * d; };
  const auto logarithm = [](double d) { return -std::log1p(d); };
  EXPECT_NE(hankel(linear, 2), 0);
  EXPECT_NEAR(hankel(linear, 3), 0, 1e-15);
  EXPECT_NE(hankel(square, 3), 0);
  EXPECT_NEAR(hankel(square, 4), 0, 1e-12);
  for (int order = 2; order <= 6; ++order) {
    EXPECT_GT(std::abs(hankel(logarithm, order)), 1e-18L) << order;
  }
  // And the construction: order 3 through one chain of three channels.
  const auto chain =
      Generator::Make({RealJordanBlock{.size = 3, .rates = {0}}}, 3);
  for (double d : {0.0, 1.0, 7.5}) {
    EXPECT_DOUBLE_EQ(-2 * chain->Exp(d)[2], square(d));
  }
}

// The planes of a head span d/2 frequencies at d numbers a row; a chain of m
// jets spends 2m channels on one frequency and its first m - 1 derivatives.
TEST(Theory, StackedTurnsTradeFrequenciesForDerivatives) {
  const auto planes =
      Generator::Make({RotationBlock{.frequencies = {1, 0.1, 0.01}}}, 6);
  const auto jets = Generator::Make(
      {ComplexJordanBlock{.size = 3, .frequencies = {1}, .rates = {0}}}, 6);
  ASSERT_TRUE(planes.ok() && jets.ok());
  EXPECT_EQ(planes->planes().size(), 3u);
  const double d = 2.5;
  // First row of the chain: cos D, then D cos D, then D^2/2 cos D.
  const Matrix a = jets->Exp(d);
  for (int r = 0; r < 3; ++r) {
    EXPECT_NEAR(a[2 * r], std::pow(d, r) / std::tgamma(r + 1) * std::cos(d),
                1e-14);
  }
}

// Several axes keep the law exactly when their generators commute: turns of
// disjoint planes do, those of planes that share a channel do not. That is what
// LieRE gives up with its second axis.
TEST(Theory, AxesMustCommute) {
  const auto plane = [](int i, int j) {
    Matrix skew(16);
    skew[i * 4 + j] = 1;
    skew[j * 4 + i] = -1;
    return skew;
  };
  // A(p - p') of a query at (x, y) and a key at (y, x), both moved by c.
  const auto score = [](const Matrix& a, const Matrix& b, double c) {
    const auto turn = [&](double x, double y) {
      Matrix sum(16);
      for (int e = 0; e < 16; ++e) sum[e] = (x + c) * a[e] + (y + c) * b[e];
      return SeriesExp(sum, 4, 1);
    };
    return Product(Transpose(turn(1, 0.25), 4), turn(0.25, 1), 4);
  };
  const Matrix first = plane(0, 1), apart = plane(2, 3), shared = plane(1, 2);
  EXPECT_LE(Difference(score(first, apart, 0), score(first, apart, 3)), 1e-13);
  EXPECT_GT(Difference(score(first, shared, 0), score(first, shared, 3)), 0.1);
}

// Scores of one query at time 40 against keys whose times are dealt anew.
std::vector<float> ScoresAt(const EncodingSpec& encoding,
                            const std::vector<int64_t>& key_times) {
  ProblemSpec spec;
  spec.queries = 1;
  spec.keys = static_cast<int64_t>(key_times.size());
  spec.dim = 8;
  Random random(9);
  spec.Fill(random);
  spec.kind = TimeAxis::Kind::kTicks;
  spec.query_ticks = {40};
  spec.key_ticks = key_times;
  spec.encoding = encoding;
  spec.ratio = {.tick_ns = 1, .unit_ns = 1};
  if (spec.encoding->unit_ns == 0) spec.encoding->unit_ns = 1;
  return RunSpec(spec).scores;
}

// Without an encoding only masks see the time: dealing the times anew changes
// no bit. Every family sees it.
TEST(Theory, NopeIsPermutationInvariantAndTheOthersAreNot) {
  const std::vector<int64_t> times = {3, 11, 20, 32}, dealt = {20, 32, 3, 11};
  EXPECT_EQ(ScoresAt({}, times), ScoresAt({}, dealt));
  const auto of_block = [](Block block) {
    EncodingSpec spec;
    spec.blocks = {std::move(block)};
    return spec;
  };
  const auto of_bias = [](BiasTerm term) {
    EncodingSpec spec;
    spec.biases = {std::move(term)};
    return spec;
  };
  EncodingSpec absolute;
  absolute.absolutes = {{.kind = SinusoidalPart{}}};
  std::vector<float> buckets(32);
  for (int b = 0; b < 32; ++b) buckets[b] = 0.1f * static_cast<float>(b);
  const EncodingSpec specs[] = {
      of_block(RotaryBlock{}),
      of_block(DecayBlock{.rates = {0.01}}),
      of_block(DampedRotationBlock{.frequencies = {1, 0.3}, .rates = {0.01}}),
      of_block(RealJordanBlock{.size = 2, .rates = {0}, .tau = 10}),
      of_block(ComplexJordanBlock{
          .size = 2, .frequencies = {0.3}, .rates = {0.01}, .eta = 0.1}),
      of_block(DenseMatrixBlock{.dim = 2, .matrix = {-0.01, 0.5, -0.5, -0.02}}),
      of_bias(AlibiTerm{.slopes = {0.1}}),
      of_bias(T5Term{.table = buckets}),
      of_bias(KerpleTerm{.r1 = {1}, .r2 = {0.1}}),
      of_bias(SandwichTerm{.dim = 8}),
      absolute};
  for (const EncodingSpec& spec : specs) {
    EXPECT_NE(ScoresAt(spec, times), ScoresAt(spec, dealt)) << &spec - specs;
  }
}

}  // namespace
}  // namespace attnd::testing
