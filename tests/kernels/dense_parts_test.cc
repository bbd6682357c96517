// What a dense generator is split into: planes, chains and clusters that stay
// together near defective matrices; and that growth is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/dense.h"
#include "kernels/generator.h"
#include "tests/kernels/dense_generator.h"
#include "tests/kernels/matrix_oracle.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

using testing::Bound;
using testing::Dense;
using testing::Difference;
using ::testing::HasSubstr;
using testing::Identity;
using testing::Matrix;
using testing::Product;
using testing::Random;
using testing::RandomMatrix;
using testing::RandomTurn;
using testing::SeriesExp;
using testing::Transpose;

// Rotations, decays and damped rotations inside V: found again, T5/P14.
TEST(Dense, FindsThePartsOfASimilarMatrix) {
  Random random(4);
  const Matrix b = {0,  2, 0,    0,    0,     0,  //
                    -2, 0, 0,    0,    0,     0,  //
                    0,  0, -0.5, 3,    0,     0,  //
                    0,  0, -3,   -0.5, 0,     0,  //
                    0,  0, 0,    0,    -0.25, 0,  //
                    0,  0, 0,    0,    0,     0};
  for (int trial = 0; trial < 20; ++trial) {
    Matrix v = RandomTurn(6, random), inverse = Transpose(v, 6);
    // Not orthogonal either: columns of different lengths, and a turn again.
    const Matrix w = RandomTurn(6, random);
    for (int i = 0; i < 6; ++i) {
      for (int j = 0; j < 6; ++j) {
        v[i * 6 + j] *= 1 + j;
        inverse[j * 6 + i] /= 1 + j;
      }
    }
    v = Product(v, w, 6);
    inverse = Product(Transpose(w, 6), inverse, 6);
    const Matrix x = Product(Product(v, b, 6), inverse, 6);
    const auto generator = Dense(x, 6);
    ASSERT_TRUE(generator.ok()) << generator.status();
    EXPECT_TRUE(generator->small_blocks().empty());
    ASSERT_EQ(generator->planes().size(), 2u);
    ASSERT_EQ(generator->chains().size(), 3u);
    EXPECT_LT(generator->condition(), 100);
    EXPECT_TRUE(generator->bounded());
    EXPECT_LE(Difference(testing::GeneratorMatrix(*generator), x), 1e-12);
    for (double lag : {0.3, 7.0}) {
      const Matrix expected =
          Product(Product(v, SeriesExp(b, 6, lag), 6), inverse, 6);
      EXPECT_LE(Difference(generator->Exp(lag), expected), 1e-12);
    }
  }
}

TEST(Dense, SkewMatricesArePlanesAloneInAnOrthogonalBasis) {
  Random random(5);
  for (int n : {2, 3, 6, 7, 32, 128}) {
    Matrix x = RandomMatrix(n, random);
    for (int i = 0; i < n; ++i) {
      x[i * n + i] = 0;
      for (int j = 0; j < i; ++j) x[i * n + j] = -x[j * n + i];
    }
    const auto generator = Dense(x, n);
    ASSERT_TRUE(generator.ok()) << generator.status();
    EXPECT_EQ(generator->planes().size(), static_cast<size_t>(n / 2));
    EXPECT_TRUE(generator->chains().empty());
    EXPECT_TRUE(generator->small_blocks().empty());
    EXPECT_FALSE(generator->one_sided());
    EXPECT_TRUE(generator->bounded());
    EXPECT_NEAR(generator->condition(), 1, 1e-12);
    const Matrix turn = generator->Exp(1.75);
    EXPECT_LE(Difference(Product(turn, Transpose(turn, n), n), Identity(n)),
              1e-13 * n);
  }
}

TEST(Dense, RepeatedRotationsAreNoSmallBlock) {
  Random random(6);
  const Matrix b = {0, 1, 0, 0, -1, 0, 0, 0, 0, 0, 0, 1, 0, 0, -1, 0};
  for (int trial = 0; trial < 20; ++trial) {
    const Matrix v = RandomTurn(4, random);
    const auto generator =
        Dense(Product(Product(v, b, 4), Transpose(v, 4), 4), 4);
    ASSERT_TRUE(generator.ok()) << generator.status();
    EXPECT_EQ(generator->planes().size(), 2u);
    EXPECT_FALSE(generator->one_sided());
  }
}

// N with an eigenvalue moved by epsilon, turned: an eigendecomposition would
// have a condition of 1 / epsilon^(3/4).
TEST(Dense, NearDefectiveMatricesKeepTheirCluster) {
  Random random(7);
  for (double epsilon : {0.0, 1e-300, 1e-16, 1e-13, 1e-10, 1e-7, 1e-4, 1e-2}) {
    for (double rate : {0.0, 0.5}) {
      Matrix b(16);
      for (int i = 0; i < 4; ++i) {
        b[i * 4 + i] = -rate;
        if (i < 3) b[i * 4 + i + 1] = 1;
      }
      // Eigenvalues -rate + fourth roots of -epsilon: growth beyond the
      // tolerance only for large epsilon at rate 0.
      b[12] = -epsilon;
      if (rate == 0 && epsilon > 1e-16) continue;
      const Matrix v = RandomTurn(4, random);
      const Matrix x = Product(Product(v, b, 4), Transpose(v, 4), 4);
      const auto generator = Dense(x, 4);
      ASSERT_TRUE(generator.ok()) << epsilon << " " << generator.status();
      EXPECT_LT(generator->condition(), 2e3);
      EXPECT_EQ(generator->bounded(), rate > 0) << epsilon;
      for (double lag : {1e-3, 1.0, 10.0, 50.0}) {
        const Matrix expected = SeriesExp(x, 4, lag);
        EXPECT_LE(Difference(generator->Exp(lag), expected),
                  Bound(*generator, x, lag, expected))
            << "epsilon " << epsilon << ", rate " << rate << ", lag " << lag;
      }
    }
  }
}

// The same for pairs of complex eigenvalues.
TEST(Dense, NearDefectiveRotationsKeepTheirCluster) {
  Random random(8);
  for (double epsilon : {0.0, 1e-15, 1e-12, 1e-8, 1e-3}) {
    const Matrix b = {-0.1,        2,    1,
                      0,  //
                      -2,          -0.1, 0,
                      1,  //
                      0,           0,    -0.1,
                      2 + epsilon,  //
                      0,           0,    -2 - epsilon,
                      -0.1};
    const Matrix v = RandomTurn(4, random);
    const Matrix x = Product(Product(v, b, 4), Transpose(v, 4), 4);
    const auto generator = Dense(x, 4);
    ASSERT_TRUE(generator.ok()) << generator.status();
    EXPECT_LT(generator->condition(), 2e3);
    EXPECT_TRUE(generator->bounded());
    for (double lag : {0.01, 1.0, 20.0}) {
      const Matrix expected = SeriesExp(x, 4, lag);
      EXPECT_LE(Difference(generator->Exp(lag), expected),
                Bound(*generator, x, lag, expected))
          << "epsilon " << epsilon << ", lag " << lag;
    }
    if (epsilon > 1e-8) continue;
    ASSERT_EQ(generator->small_blocks().size(), 1u) << epsilon;
    EXPECT_FALSE(generator->small_blocks()[0].rotation.empty());
    // The two-sided rule: decay and coupling take |D|, the rotation D.
    const Matrix one_sided = {-0.1, 0, 1,    0, 0, -0.1, 0, 1,
                              0,    0, -0.1, 0, 0, 0,    0, -0.1};
    const Matrix turn = {0, 2, 0, 0, -2, 0, 0, 0, 0, 0, 0, 2, 0, 0, -2, 0};
    const Matrix expected = Product(
        Product(v,
                Product(SeriesExp(one_sided, 4, 3), SeriesExp(turn, 4, -3), 4),
                4),
        Transpose(v, 4), 4);
    EXPECT_LE(Difference(generator->Exp(-3, true), expected),
              epsilon == 0 ? 1e-6 : 1e-5 + 100 * epsilon);
  }
}

TEST(Dense, ExactJordanBlocksAreChains) {
  const auto generator = Dense({-0.25, 2, 0, 0, -0.25, 2, 0, 0, -0.25}, 3);
  ASSERT_TRUE(generator.ok()) << generator.status();
  ASSERT_EQ(generator->chains().size(), 1u);
  EXPECT_EQ(generator->chains()[0].channels, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(generator->chains()[0].rate, 0.25);
  EXPECT_EQ(generator->chains()[0].coupling, 2);
  EXPECT_TRUE(generator->basis().empty());
}

TEST(Dense, DiagonalAndPermutedMatricesNeedNoBasis) {
  const auto diagonal = Dense({-3, 0, 0, 0, 0, 0, 0, 0, -1}, 3);
  ASSERT_TRUE(diagonal.ok()) << diagonal.status();
  EXPECT_TRUE(diagonal->basis().empty());
  EXPECT_EQ(diagonal->chains().size(), 2u);
  const auto plane = Dense({-1, 0, 0, 0, 0, 5, 0, -5, 0}, 3);
  ASSERT_TRUE(plane.ok()) << plane.status();
  EXPECT_TRUE(plane->basis().empty());
  ASSERT_EQ(plane->planes().size(), 1u);
  EXPECT_EQ(plane->planes()[0].first, 1);
  EXPECT_EQ(plane->planes()[0].omega, 5);
  EXPECT_EQ(testing::GeneratorMatrix(*plane),
            (Matrix{-1, 0, 0, 0, 0, 5, 0, -5, 0}));
}

TEST(Dense, GrowthIsRefused) {
  for (const Matrix& x : std::vector<Matrix>{{1e-3, 0, 0, -1},
                                             {0.1, 5, -5, 0.1},
                                             {0, 1, 1, 0},
                                             {-1, 1e7, 0, 0.5}}) {
    const auto generator = Dense(x, 2);
    ASSERT_FALSE(generator.ok()) << x[0];
    EXPECT_EQ(generator.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(generator.status().message()),
                HasSubstr("blocks[0].dense.matrix"));
  }
  // Within the tolerance: counts as 0.
  const auto tiny = Dense({1e-10, 0, 0, -1}, 2);
  ASSERT_TRUE(tiny.ok()) << tiny.status();
  EXPECT_TRUE(tiny->bounded());
}

TEST(Dense, GrowthIsJudgedByTheMeanOfADefectiveCluster) {
  // A turned nilpotent matrix: computed eigenvalues near 1e-4, mean 0.
  Random random(9);
  Matrix b(25);
  for (int i = 0; i < 4; ++i) b[i * 5 + i + 1] = 1;
  for (int trial = 0; trial < 20; ++trial) {
    const Matrix v = RandomTurn(5, random);
    const auto generator =
        Dense(Product(Product(v, b, 5), Transpose(v, 5), 5), 5);
    ASSERT_TRUE(generator.ok()) << generator.status();
    EXPECT_TRUE(generator->one_sided());
    EXPECT_FALSE(generator->bounded());
  }
}

TEST(Dense, NonFiniteMatricesAreRefused) {
  for (double bad : {std::nan(""), HUGE_VAL}) {
    EXPECT_FALSE(Dense({0, bad, 0, 0}, 2).ok());
    EXPECT_FALSE(SplitDense({0, bad, 0, 0}, 2, "x").ok());
  }
}

}  // namespace
}  // namespace attnd
