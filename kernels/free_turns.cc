#include "kernels/free_turns.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace attnd {
namespace {

using Matrix = Eigen::MatrixXd;

// exp(T) of a skew tridiagonal T with T(i + 1, i) = below[i]. With D = diag(1,
// i, -1, -i, ...) it is -i D S D^-1, S the symmetric matrix with the same
// numbers on both sides: the entries of exp(T) are those of cos S where rows
// and columns are an even number apart and those of sin S elsewhere, up to
// signs.
Matrix ExpOfTridiagonal(const Eigen::VectorXd& below) {
  const Eigen::Index n = below.size() + 1;
  // The iteration tells what is 0 by sizes near 1.
  const double unit = below.cwiseAbs().maxCoeff();
  Eigen::SelfAdjointEigenSolver<Matrix> solver;
  solver.computeFromTridiagonal(Eigen::VectorXd::Zero(n), below / unit);
  assert(solver.info() == Eigen::Success);
  const Matrix& vectors = solver.eigenvectors();
  const Eigen::ArrayXd angles = solver.eigenvalues().array() * unit;
  const auto of = [&](const Eigen::ArrayXd& values) -> Matrix {
    return vectors * values.matrix().asDiagonal() * vectors.transpose();
  };
  const Matrix cosine = of(angles.cos()), sine = of(angles.sin());
  Matrix exp(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) {
      // i^(i - j) times 1 or -i.
      const Eigen::Index apart = (i - j) & 3;
      const double value = apart % 2 == 0 ? cosine(i, j) : sine(i, j);
      exp(i, j) = apart < 2 ? value : -value;
    }
  }
  return exp;
}

}  // namespace

FreeTurn MakeFreeTurn(int size, std::vector<double> generators) {
  assert(size <= kMaxFreeTurn);
  FreeTurn turn{.size = size,
                .sources = {},
                .generators = std::move(generators),
                .speeds = {}};
  const size_t entries = static_cast<size_t>(size) * size;
  for (size_t a = 0; a < turn.generators.size(); a += entries) {
    // Frequencies come in pairs, w and -w.
    double squares = 0;
    for (size_t e = a; e < a + entries; ++e) {
      squares += turn.generators[e] * turn.generators[e] / 2;
    }
    turn.speeds.push_back(std::sqrt(squares));
  }
  return turn;
}

double LargestAngle(const FreeTurn& turn, absl::Span<const double> places) {
  double angle = 0;
  for (size_t a = 0; a < places.size(); ++a) {
    angle += std::abs(places[a]) * turn.speeds[a];
  }
  return angle;
}

void FreeTurnMatrix(const FreeTurn& turn, absl::Span<const double> places,
                    float* matrix) {
  const int n = turn.size;
  Matrix sum = Matrix::Zero(n, n);
  for (size_t a = 0; a < places.size(); ++a) {
    // A_a, row-major, read by columns: its transpose.
    sum += places[a] *
           Eigen::Map<const Matrix>(turn.generators.data() + a * n * n, n, n);
  }
  Matrix exp = Matrix::Identity(n, n);
  if (!sum.isZero(0)) {
    const Eigen::HessenbergDecomposition<Matrix> hessenberg(sum);
    const Matrix basis = hessenberg.matrixQ();
    const Eigen::VectorXd below = hessenberg.packedMatrix().diagonal(-1);
    exp = basis * ExpOfTridiagonal(below) * basis.transpose();
  }
  for (int in = 0; in < n; ++in) {
    for (int out = 0; out < n; ++out) {
      matrix[in * n + out] = static_cast<float>(exp(in, out));
    }
  }
}

double FreeTurnFlops(absl::Span<const FreeTurn> turns) {
  // 1 us for 3 channels, 5 for 8, 100 for 32, 540 for 64, where matrix products
  // run at 100 GFLOP/s.
  constexpr double kFixed = 1e5, kPerSquare = 2000, kPerCube = 250;
  double flops = 0;
  for (const FreeTurn& turn : turns) {
    const double n = turn.size;
    flops += kFixed + kPerSquare * n * n + kPerCube * n * n * n;
  }
  return flops;
}

}  // namespace attnd
