// Dense generators that stay a matrix, near defective or stretched ones: they
// turn by their lags as exactly as planes do.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/answer.h"
#include "tests/kernels/encoded_judge.h"
#include "tests/kernels/matrix_oracle.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {
namespace {

// Queries at the times of keys, nanoseconds, gaps log-uniform up to what makes
// `seconds` together.
ProblemSpec Causal(const Matrix& matrix, int dim, double seconds,
                   uint64_t seed) {
  Random random(seed);
  ProblemSpec spec;
  spec.seed = seed;
  spec.queries = spec.keys = 80;
  spec.dim = dim;
  spec.kind = TimeAxis::Kind::kTicks;
  spec.ratio = {.tick_ns = 1, .unit_ns = 1000000000};
  spec.causal = true;
  int64_t time = -1700000000000000000;
  for (int64_t i = 0; i < spec.keys; ++i) {
    time += static_cast<int64_t>(1e9 * seconds / 20 *
                                 std::pow(10, -4 * random.Uniform()));
    spec.key_ticks.push_back(time);
  }
  spec.query_ticks = spec.key_ticks;
  spec.encoding.emplace();
  spec.encoding->blocks = {DenseMatrixBlock{.dim = dim, .matrix = matrix}};
  spec.Fill(random);
  return spec;
}

// [[R, 1], [0, R']], R' turning a little faster.
Matrix CloseTurns(double omega, double apart) {
  const double other = omega * (1 + apart);
  return {-0.01,  omega, 1,      0,      //
          -omega, -0.01, 0,      1,      //
          0,      0,     -0.01,  other,  //
          0,      0,     -other, -0.01};
}

TEST(KeptMatrices, TurnsThatAreHardToPartAreExact) {
  for (const double omega : {1.0, 6.437, 100.0, 1e4}) {
    for (const double apart : {0.0, 1e-9, 1e-3}) {
      for (const double seconds : {30.0, 3000.0}) {
        const ProblemSpec spec =
            Causal(CloseTurns(omega, apart), 4, seconds, 3);
        EXPECT_EQ(JudgeEncoded(spec, 1), "")
            << omega << " rad/s, " << apart << " apart, " << seconds << " s";
      }
    }
  }
}

TEST(KeptMatrices, OscillatorsKeepTheirPhase) {
  // x'' = -w^2 x - 2 d x': the matrix of (x, x').
  for (const double omega : {10.0, 2 * M_PI * 200, 1e4}) {
    for (const double damping : {0.0, 0.005}) {
      const Matrix matrix = {0, 1, -omega * omega - damping * damping,
                             -2 * damping};
      for (const double seconds : {1.0, 3000.0}) {
        const ProblemSpec spec = Causal(matrix, 2, seconds, 4);
        EXPECT_EQ(JudgeEncoded(spec, 1), "")
            << omega << " rad/s, " << seconds << " s";
      }
    }
  }
}

// Against the closed form, of which the kernels' reference knows nothing.
TEST(KeptMatrices, AnOscillatorsScoresAreItsClosedForm) {
  const double omega = 2 * M_PI * 200;
  const ProblemSpec spec = Causal({0, 1, -omega * omega, 0}, 2, 300, 5);
  const Answer answer = RunSpec(spec);
  ASSERT_FALSE(answer.scores.empty());
  for (int64_t i = 0; i < spec.queries; ++i) {
    double size = 1;
    for (int64_t j = 0; j <= i; ++j) {
      const float *q = &spec.query[i * 2], *k = &spec.key[j * 2];
      size = std::max(size, omega * std::abs(q[1] * k[0]) / 8);
      const long double lag =
          1e-9L *
          static_cast<long double>(spec.query_ticks[i] - spec.key_ticks[j]);
      const long double angle = static_cast<long double>(omega) * lag;
      const long double c = std::cos(angle), s = std::sin(angle);
      const auto expected =
          static_cast<double>(q[0] * (c * k[0] + s / omega * k[1]) +
                              q[1] * (-omega * s * k[0] + c * k[1]));
      EXPECT_NEAR(answer.scores[i * spec.keys + j], expected,
                  kScoreError * size)
          << i << "," << j;
    }
  }
}

}  // namespace
}  // namespace attnd::testing
