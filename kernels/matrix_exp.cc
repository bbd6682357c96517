#include "kernels/matrix_exp.h"

#include <Eigen/Core>
#include <algorithm>
#include <cassert>
#include <cmath>

namespace attnd {
namespace {

using Matrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Terms of the series, enough for a norm of 1/2 at 2^-60.
constexpr int kTerms = 16;

// The diagonal blocks of an upper quasi-triangular matrix: sizes in order,
// empty if the matrix is none.
std::vector<int> DiagonalBlocks(const Matrix& m) {
  const int n = static_cast<int>(m.rows());
  std::vector<int> sizes;
  for (int i = 0; i < n;) {
    const int size = i + 1 < n && m(i + 1, i) != 0 ? 2 : 1;
    if (size == 2 &&
        (m(i, i) != m(i + 1, i + 1) || !(m(i, i + 1) * m(i + 1, i) < 0))) {
      return {};
    }
    for (int row = i + size; row < n; ++row) {
      for (int column = i; column < i + size; ++column) {
        if (m(row, column) != 0) return {};
      }
    }
    sizes.push_back(size);
    i += size;
  }
  return sizes;
}

double Phi1(double z) { return z == 0 ? 1 : std::expm1(z) / z; }

// (e^x - e^y) / (x - y) without overflow in between.
double DividedDifference(double x, double y) {
  return std::exp(std::max(x, y)) * Phi1(-std::abs(x - y));
}

// Scaling and squaring of lag * M.
class Evaluation {
 public:
  Evaluation(Matrix m, double lag)
      : m_(std::move(m)),
        lag_(lag),
        n_(static_cast<int>(m_.rows())),
        blocks_(DiagonalBlocks(m_)) {}

  // Moves the eigenvalue that grows most to the imaginary axis; returns what
  // exp must be multiplied by afterwards.
  double Shift() {
    if (blocks_.empty()) return 1;
    const Eigen::VectorXd diagonal = m_.diagonal();
    const double shift = lag_ > 0 ? diagonal.maxCoeff() : diagonal.minCoeff();
    m_.diagonal().array() -= shift;
    return std::exp(shift * lag_);
  }

  // m_ij *= g^(block of j - block of i), g a power of two, so that no coupling
  // exceeds the spectral radius by much.
  void Grade() {
    if (blocks_.empty()) return;
    const std::vector<int> block = BlockOfRow();
    double radius = 0;
    for (int i = 0; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) {
        if (block[i] == block[j]) radius = std::max(radius, std::abs(m_(i, j)));
      }
    }
    if (radius == 0) return;
    double exponent = 0;
    for (int i = 0; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) {
        const double coupling = std::abs(m_(i, j));
        if (block[j] <= block[i] || coupling <= radius) continue;
        exponent = std::min(
            exponent, std::log2(radius / coupling) / (block[j] - block[i]));
      }
    }
    // Beyond this the powers themselves could leave the range of a double.
    exponent = std::max(std::floor(exponent), -900.0 / n_);
    for (int i = 0; i < n_; ++i) {
      grade_[i] = std::exp2(std::floor(exponent) * block[i]);
    }
    m_ = grade_.cwiseInverse().asDiagonal() * m_ * grade_.asDiagonal();
  }

  void Run() {
    int squarings = 0;
    double step = lag_;
    const double norm = m_.cwiseAbs().rowwise().sum().maxCoeff();
    while (norm * std::abs(step) > 0.5) {
      step /= 2;
      ++squarings;
    }
    Series(step);
    PutDiagonals(step);
    for (int i = 0; i < squarings; ++i) {
      phi1_ = 0.5 * (exp_ * phi1_ + phi1_).eval();
      exp_ = (exp_ * exp_).eval();
      step *= 2;
      PutDiagonals(step);
    }
    exp_ = grade_.asDiagonal() * exp_ * grade_.cwiseInverse().asDiagonal();
    phi1_ = grade_.asDiagonal() * phi1_ * grade_.cwiseInverse().asDiagonal();
  }

  const Matrix& exp() const { return exp_; }
  const Matrix& phi1() const { return phi1_; }

 private:
  std::vector<int> BlockOfRow() const {
    std::vector<int> block;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      block.insert(block.end(), blocks_[b], static_cast<int>(b));
    }
    return block;
  }

  // phi1 = 1 + A/2 (1 + A/3 (...)), exp = 1 + A phi1.
  void Series(double step) {
    const Matrix scaled = step * m_;
    phi1_ = Matrix::Identity(n_, n_);
    for (int k = kTerms; k >= 2; --k) {
      phi1_ = Matrix::Identity(n_, n_) + scaled * phi1_ / k;
    }
    exp_ = Matrix::Identity(n_, n_) + scaled * phi1_;
  }

  // Diagonal blocks of exp(step M) and the entries between neighbouring real
  // eigenvalues, from their closed forms.
  void PutDiagonals(double step) {
    int i = 0;
    for (size_t b = 0; b < blocks_.size(); i += blocks_[b++]) {
      const double growth = std::exp(step * m_(i, i));
      if (blocks_[b] == 2) {
        const double above = m_(i, i + 1), below = m_(i + 1, i);
        const double omega = std::sqrt(-above * below);
        const double sine = std::sin(step * omega);
        exp_(i, i) = exp_(i + 1, i + 1) = growth * std::cos(step * omega);
        exp_(i, i + 1) = growth * sine * (above / omega);
        exp_(i + 1, i) = growth * sine * (below / omega);
        continue;
      }
      exp_(i, i) = growth;
      if (b + 1 < blocks_.size() && blocks_[b + 1] == 1) {
        exp_(i, i + 1) =
            step * m_(i, i + 1) *
            DividedDifference(step * m_(i, i), step * m_(i + 1, i + 1));
      }
    }
  }

  Matrix m_;
  double lag_;
  int n_;
  std::vector<int> blocks_;
  Eigen::VectorXd grade_ = Eigen::VectorXd::Ones(n_);
  Matrix exp_, phi1_;
};

std::vector<double> Flat(const Matrix& m) {
  return std::vector<double>(m.data(), m.data() + m.size());
}

}  // namespace

std::vector<double> MatrixExp(absl::Span<const double> m, int n, double lag) {
  assert(m.size() == static_cast<size_t>(n) * n);
  Evaluation evaluation(Eigen::Map<const Matrix>(m.data(), n, n), lag);
  const double factor = evaluation.Shift();
  evaluation.Grade();
  evaluation.Run();
  return Flat(factor * evaluation.exp());
}

std::vector<double> MatrixPhi1(absl::Span<const double> m, int n, double lag) {
  assert(m.size() == static_cast<size_t>(n) * n);
  Evaluation evaluation(Eigen::Map<const Matrix>(m.data(), n, n), lag);
  evaluation.Grade();
  evaluation.Run();
  return Flat(evaluation.phi1());
}

}  // namespace attnd
