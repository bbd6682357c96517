#include "kernels/block_diagonal.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <complex>

namespace attnd {
namespace {

using Matrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// One block of the quasi-triangular Sylvester equation: A Y - Y B = R with A
// and B of at most 2 rows. Not finite when the two share an eigenvalue and R is
// not 0.
Matrix SolveBlock(const Matrix& a, const Matrix& b, const Matrix& right) {
  if (right.isZero(0)) return Matrix::Zero(right.rows(), right.cols());
  const int p = static_cast<int>(a.rows()), q = static_cast<int>(b.rows());
  if (p * q == 1) return right / (a(0, 0) - b(0, 0));
  Eigen::MatrixXd system = Eigen::MatrixXd::Zero(p * q, p * q);
  for (int i = 0; i < p; ++i) {
    for (int j = 0; j < q; ++j) {
      for (int k = 0; k < p; ++k) system(i * q + j, k * q + j) += a(i, k);
      for (int k = 0; k < q; ++k) system(i * q + j, i * q + k) -= b(k, j);
    }
  }
  const Eigen::VectorXd solution = system.partialPivLu().solve(
      Eigen::Map<const Eigen::VectorXd>(right.data(), p * q));
  return Eigen::Map<const Matrix>(solution.data(), p, q);
}

class Splitter {
 public:
  Splitter(double largest_entry, SchurForm& schur)
      : largest_entry_(largest_entry), schur_(schur), n_(schur.n()) {}

  BlockDiagonal Run() {
    for (int first = 0; first < n_;) {
      int rows = schur_.block(first);
      while (first + rows < n_ && !Separable(first, rows)) {
        rows = Join(first, rows);
      }
      result_.clusters.push_back(rows);
      first += rows;
    }
    Transform();
    return std::move(result_);
  }

 private:
  Matrix T(int row, int column, int rows, int columns) const {
    Matrix part(rows, columns);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        part(i, j) = schur_.t(row + i, column + j);
      }
    }
    return part;
  }

  // Y with T11 Y - Y T22 = -T12: T11 the `rows` rows from `first` on, T22 all
  // behind them. Stops early, with an infinity, when an entry exceeds the
  // limit.
  Matrix Decouple(int first, int rows, double limit) const {
    const int rest = n_ - first - rows;
    const Matrix t11 = T(first, first, rows, rows);
    const Matrix t22 = T(first + rows, first + rows, rest, rest);
    Matrix y = -T(first, first + rows, rows, rest);
    for (int j = 0, q = 0; j < rest; j += q) {
      q = schur_.block(first + rows + j);
      y.middleCols(j, q) += y.leftCols(j) * t22.block(0, j, j, q);
      for (int i = rows; i > 0;) {
        const int p = i >= 2 && t11(i - 1, i - 2) != 0 ? 2 : 1;
        i -= p;
        const int below = rows - i - p;
        const Matrix right =
            y.block(i, j, p, q) -
            t11.block(i, i + p, p, below) * y.block(i + p, j, below, q);
        y.block(i, j, p, q) =
            SolveBlock(t11.block(i, i, p, p), t22.block(j, j, q, q), right);
        if (!(y.block(i, j, p, q).cwiseAbs().maxCoeff() <= limit)) {
          y(0, 0) = INFINITY;
          return y;
        }
      }
    }
    return y;
  }

  bool Separable(int first, int rows) const {
    return std::isfinite(Decouple(first, rows, largest_entry_)(0, 0));
  }

  // Brings the eigenvalue nearest to the cluster next to it; the new row count.
  int Join(int first, int rows) {
    double sum = 0;
    for (int i = first; i < first + rows; ++i) sum += schur_.t(i, i);
    double imaginary = 0;
    for (int i = first; i < first + rows; i += schur_.block(i)) {
      imaginary = std::max(imaginary, schur_.eigenvalue(i).imag());
    }
    const std::complex<double> centre(sum / rows, imaginary);
    int nearest = first + rows;
    for (int i = nearest; i < n_; i += schur_.block(i)) {
      if (std::abs(schur_.eigenvalue(i) - centre) <
          std::abs(schur_.eigenvalue(nearest) - centre)) {
        nearest = i;
      }
    }
    const int size = schur_.block(nearest);
    while (nearest > first + rows) {
      const int before =
          nearest - first - rows >= 2 && schur_.block(nearest - 2) == 2 ? 2 : 1;
      // Too close to be told apart from what stands between: take that too.
      if (!schur_.SwapWithNext(nearest - before)) return nearest + size - first;
      nearest -= before;
    }
    return rows + size;
  }

  // V = U Z_1 Z_2 ..., Z_k parting cluster k from all behind it.
  void Transform() {
    Matrix v(n_, n_);
    for (int i = 0; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) v(i, j) = schur_.u(i, j);
    }
    Matrix inverse = v.transpose();
    int first = 0;
    std::vector<Matrix> parting;
    for (int rows : result_.clusters) {
      const int rest = n_ - first - rows;
      if (rest > 0) {
        parting.push_back(Decouple(first, rows, INFINITY));
        v.rightCols(rest) += v.middleCols(first, rows) * parting.back();
      }
      first += rows;
    }
    // (Z_1 Z_2 ...)^-1 U^T = ... Z_2^-1 Z_1^-1 U^T.
    first = 0;
    for (size_t k = 0; k < parting.size(); ++k) {
      const int rows = result_.clusters[k];
      inverse.middleRows(first, rows) -=
          parting[k] * inverse.bottomRows(n_ - first - rows);
      first += rows;
    }
    ScaleColumns(v, inverse);
    const Eigen::VectorXd singular =
        Eigen::BDCSVD<Eigen::MatrixXd>(v).singularValues();
    result_.condition = singular[0] / singular[n_ - 1];
    result_.v.assign(v.data(), v.data() + v.size());
    result_.v_inverse.assign(inverse.data(), inverse.data() + inverse.size());
  }

  // One power of two per cluster: changes nothing within it.
  void ScaleColumns(Matrix& v, Matrix& inverse) const {
    int first = 0;
    for (int rows : result_.clusters) {
      const double norm = v.middleCols(first, rows).colwise().norm().maxCoeff();
      const double scale = std::exp2(-std::round(std::log2(norm)));
      v.middleCols(first, rows) *= scale;
      inverse.middleRows(first, rows) /= scale;
      first += rows;
    }
  }

  const double largest_entry_;
  SchurForm& schur_;
  const int n_;
  BlockDiagonal result_;
};

}  // namespace

BlockDiagonal SplitClusters(double largest_entry, SchurForm& schur) {
  return Splitter(largest_entry, schur).Run();
}

}  // namespace attnd
