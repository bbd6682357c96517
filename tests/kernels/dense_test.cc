// Exponentials of dense generators stay exact, on hard and stiff matrices too.
#include "kernels/dense.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "kernels/generator.h"
#include "tests/kernels/dense_generator.h"
#include "tests/kernels/matrix_oracle.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

using testing::Bound;
using testing::Dense;
using testing::Difference;
using testing::Identity;
using testing::kEpsilon;
using testing::Matrix;
using testing::Product;
using testing::Random;
using testing::RandomMatrix;
using testing::RandomTurn;
using testing::SeriesExp;
using testing::SeriesPhi1;
using testing::Transpose;

// A random X whose eigenvalues have real parts <= `largest`.
Matrix StableMatrix(int n, Random& random, double largest = 0) {
  Matrix x = RandomMatrix(n, random);
  // Gershgorin.
  for (int i = 0; i < n; ++i) {
    double reach = 0;
    for (int j = 0; j < n; ++j) {
      if (j != i) reach += std::abs(x[i * n + j]);
    }
    x[i * n + i] = largest - reach * (0.2 + 0.8 * random.Uniform());
  }
  return x;
}

TEST(Dense, StopsWhenTold) {
  Random random(1);
  const Matrix x = RandomMatrix(16, random);
  const std::atomic<bool> stop{true};
  EXPECT_EQ(SplitDense(x, 16, "matrix", &stop).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(Dense, MatchesTheSeriesForRandomMatrices) {
  Random random(1);
  int refused = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const int n = static_cast<int>(random.Integer(1, 12));
    const Matrix x = StableMatrix(n, random);
    const auto generator = Dense(x, n);
    if (!generator.ok()) {
      ++refused;
      continue;
    }
    EXPECT_LE(generator->condition(), kMaxCondition);
    for (double lag : {1e-6, 0.01, 0.5, 3.0, 40.0}) {
      const Matrix expected = SeriesExp(x, n, lag);
      EXPECT_LE(Difference(generator->Exp(lag), expected),
                Bound(*generator, x, lag, expected))
          << "trial " << trial << ", n " << n << ", lag " << lag
          << ", condition " << generator->condition();
    }
  }
  EXPECT_LT(refused, 60);
}

Matrix Filled(int n, double (*entry)(int i, int j)) {
  Matrix x(static_cast<size_t>(n) * n);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) x[i * n + j] = entry(i, j);
  }
  return x;
}

// Non-normal matrices, whose eigenvectors say nothing about them.
TEST(Dense, MatchesTheSeriesForMatricesKnownToBeHard) {
  constexpr int n = 16;
  struct Hard {
    const char* name;
    Matrix x;
  };
  std::vector<Hard> all = {
      {"Grcar", Filled(n,
                       [](int i, int j) {
                         return i == j       ? -3.0
                                : j == i - 1 ? -1.0
                                             : double(j > i && j <= i + 3);
                       })},
      {"HiPPO", Filled(n,
                       [](int i, int j) {
                         return i > j    ? -std::sqrt((2 * i + 1) * (2 * j + 1))
                                : i == j ? -1.0 - i
                                         : 0.0;
                       })},
      {"one eigenvalue",
       Filled(n,
              [](int i, int j) { return i == j ? -1.0 : double(j == i + 1); })},
      {"close eigenvalues", Filled(n,
                                   [](int i, int j) {
                                     return i == j  ? -1 - 1e-3 * i
                                            : j > i ? 1.0 / (1 + j)
                                                    : 0;
                                   })},
      {"rates over 16 decades", Filled(n,
                                       [](int i, int j) {
                                         return i == j
                                                    ? -std::pow(10, i - 8)
                                                    : double(j > i) / (i + j);
                                       })},
  };
  Random random(12);
  const Matrix turn = RandomTurn(n, random);
  for (const Hard& hard : all) {
    const Matrix turned =
        Product(Product(turn, hard.x, n), Transpose(turn, n), n);
    for (const Matrix& x : {hard.x, turned}) {
      const auto generator = Dense(x, n);
      ASSERT_TRUE(generator.ok()) << hard.name << " " << generator.status();
      EXPECT_LE(generator->condition(), 1e3) << hard.name;
      for (double lag : {1e-4, 0.1, 1.0}) {
        const Matrix expected = SeriesExp(x, n, lag);
        EXPECT_LE(Difference(generator->Exp(lag), expected),
                  Bound(*generator, x, lag, expected))
            << hard.name << ", lag " << lag;
      }
    }
  }
}

// Case: formulas for triangular or widely spread eigenvalues overflow, or scale
// and square too much.
TEST(Dense, StiffMatricesAreExact) {
  const auto stiff = Dense({-1, 0, 1000, -1000}, 2);
  ASSERT_TRUE(stiff.ok()) << stiff.status();
  const Matrix one = stiff->Exp(1);
  EXPECT_NEAR(one[0], std::exp(-1), 1e-15);
  EXPECT_NEAR(one[2], 1000.0 / 999 * std::exp(-1), 1e-15);
  EXPECT_EQ(one[1], 0);
  EXPECT_EQ(stiff->Exp(1e6), Matrix(4, 0.0));

  const auto markov = Dense({-1, 1, 0, 0}, 2);
  ASSERT_TRUE(markov.ok()) << markov.status();
  EXPECT_EQ(markov->Exp(3000), (Matrix{0, 1, 0, 1}));
  EXPECT_EQ(markov->Exp(1e6), (Matrix{0, 1, 0, 1}));
  for (double lag : {1e-9, 0.1, 1.0, 30.0}) {
    const Matrix e = markov->Exp(lag);
    EXPECT_NEAR(e[0] + e[1], 1, kEpsilon);
    EXPECT_NEAR(e[1], -std::expm1(-lag), 2 * kEpsilon * lag);
  }
}

TEST(Dense, EigenvaluesOfTriangularMatricesInAnyOrderAreExact) {
  // A chain of compartments with rates over twelve decades, rows shuffled.
  const Matrix x = {-1e-9, 0, 0,    0,  //
                    0,     0, 1e3,  0,  //
                    1e-9,  0, -1e3, 0,  //
                    0,     1, 0,    -1};
  const auto generator = Dense(x, 4);
  ASSERT_TRUE(generator.ok()) << generator.status();
  EXPECT_TRUE(generator->small_blocks().empty());
  EXPECT_TRUE(generator->bounded());
  EXPECT_NEAR(generator->Exp(1e9)[0] / std::exp(-1), 1, 1e-15);
  EXPECT_EQ(generator->Exp(1e13)[0], 0);
}

TEST(Dense, ExpOfZeroIsExactlyTheIdentity) {
  Random random(2);
  for (int trial = 0; trial < 20; ++trial) {
    const int n = static_cast<int>(random.Integer(1, 10));
    const auto generator = Dense(StableMatrix(n, random), n);
    if (!generator.ok()) continue;
    EXPECT_EQ(generator->Exp(0), Identity(n));
  }
}

TEST(Dense, ExpObeysTheGroupLaw) {
  Random random(3);
  for (int trial = 0; trial < 60; ++trial) {
    const int n = static_cast<int>(random.Integer(2, 8));
    const Matrix x = StableMatrix(n, random);
    const auto generator = Dense(x, n);
    if (!generator.ok()) continue;
    for (double lag : {1e-3, 1.0, 100.0, 1e6}) {
      const Matrix e = generator->Exp(lag);
      EXPECT_LE(Difference(generator->Exp(2 * lag), Product(e, e, n)),
                Bound(*generator, x, std::min(lag, 100.0), e))
          << "trial " << trial << ", lag " << lag;
    }
  }
}

TEST(Dense, DeterminantIsTheExponentialOfTheTrace) {
  const Matrix x = {-1, 2, 0.5, -3};
  const auto generator = Dense(x, 2);
  ASSERT_TRUE(generator.ok()) << generator.status();
  for (double lag : {0.1, 1.0, 5.0}) {
    const Matrix e = generator->Exp(lag);
    EXPECT_NEAR((e[0] * e[3] - e[1] * e[2]) / std::exp(-4 * lag), 1, 1e-9);
  }
}

TEST(Dense, ScaleIsOnlyAUnitOfTime) {
  Random random(10);
  const Matrix x = StableMatrix(5, random);
  const auto generator = Dense(x, 5);
  ASSERT_TRUE(generator.ok()) << generator.status();
  for (double scale : {0x1p-500, 0x1p500}) {
    Matrix scaled = x;
    for (double& e : scaled) e *= scale;
    const auto other = Dense(scaled, 5);
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(other->Exp(2 / scale), generator->Exp(2));
  }
}

TEST(Dense, AverageMatchesTheSeries) {
  Random random(11);
  for (int trial = 0; trial < 40; ++trial) {
    const int n = static_cast<int>(random.Integer(1, 6));
    const Matrix x = StableMatrix(n, random);
    const auto generator = Generator::Make(
        {Block(DenseMatrixBlock{.dim = n, .matrix = x}, {}, true)}, n);
    if (!generator.ok()) continue;
    EXPECT_EQ(generator->Exp(0), Identity(n));
    for (double lag : {1e-8, 1e-3, 0.3, 2.0, 30.0}) {
      const Matrix expected = SeriesPhi1(x, n, lag);
      EXPECT_LE(Difference(generator->Exp(lag), expected),
                Bound(*generator, x, lag, expected))
          << "trial " << trial << ", lag " << lag;
    }
  }
}

}  // namespace
}  // namespace attnd
