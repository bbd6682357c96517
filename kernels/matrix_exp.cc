#include "kernels/matrix_exp.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/basis.h"

namespace attnd {
namespace {

// Terms of the series, enough for a norm of 1/2 at 2^-60.
constexpr int kTerms = 16;

// The diagonal blocks of an upper quasi-triangular matrix: sizes in order,
// empty if the matrix is none.
std::vector<int> DiagonalBlocks(absl::Span<const double> m, int n) {
  std::vector<int> sizes;
  for (int i = 0; i < n; i += sizes.back()) {
    const int size = i + 1 < n && m[(i + 1) * n + i] != 0 ? 2 : 1;
    if (size == 2 && (m[i * n + i] != m[(i + 1) * n + i + 1] ||
                      !(m[i * n + i + 1] * m[(i + 1) * n + i] < 0))) {
      return {};
    }
    for (int row = i + size; row < n; ++row) {
      for (int column = i; column < i + size; ++column) {
        if (m[row * n + column] != 0) return {};
      }
    }
    sizes.push_back(size);
  }
  return sizes;
}

// (e^x - e^y) / (x - y) without overflow in between.
double DividedDifference(double x, double y) {
  const double apart = -std::abs(x - y);
  return std::exp(std::max(x, y)) *
         (apart == 0 ? 1 : std::expm1(apart) / apart);
}

// Scaling and squaring of lag * M.
class Evaluation {
 public:
  Evaluation(absl::Span<const double> m, int n, double lag)
      : n_(n),
        lag_(lag),
        m_(m.begin(), m.end()),
        blocks_(DiagonalBlocks(m, n)),
        grade_(n, 1.0) {}

  // Moves the eigenvalue that grows most to the imaginary axis; returns what
  // exp must be multiplied by afterwards.
  double Shift() {
    if (blocks_.empty()) return 1;
    double shift = m_[0];
    for (int i = 1; i < n_; ++i) {
      shift = lag_ > 0 ? std::max(shift, At(i, i)) : std::min(shift, At(i, i));
    }
    for (int i = 0; i < n_; ++i) m_[i * n_ + i] -= shift;
    return std::exp(shift * lag_);
  }

  // m_ij *= g^(block of j - block of i), g a power of two, so that no coupling
  // exceeds the spectral radius by much.
  void Grade() {
    const std::vector<int> block = BlockOfRow();
    double radius = 0;
    for (int i = 0; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) {
        if (block[i] == block[j]) radius = std::max(radius, std::abs(At(i, j)));
      }
    }
    if (radius == 0) return;
    double exponent = 0;
    for (int i = 0; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) {
        const double coupling = std::abs(At(i, j));
        if (block[j] <= block[i] || coupling <= radius) continue;
        exponent = std::min(
            exponent, std::log2(radius / coupling) / (block[j] - block[i]));
      }
    }
    // Beyond this the powers themselves could leave the range of a double.
    exponent = std::max(std::floor(exponent), std::ceil(-900.0 / n_));
    for (int i = 0; i < n_; ++i) grade_[i] = std::exp2(exponent * block[i]);
    for (int i = 0; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) m_[i * n_ + j] *= grade_[j] / grade_[i];
    }
  }

  void Run(bool with_phi1) {
    double norm = 0;
    for (int i = 0; i < n_; ++i) {
      double sum = 0;
      for (int j = 0; j < n_; ++j) sum += std::abs(At(i, j));
      norm = std::max(norm, sum);
    }
    int squarings = 0;
    double step = lag_;
    for (; norm * std::abs(step) > 0.5; ++squarings) step /= 2;
    Series(step);
    PutDiagonals(step);
    for (int i = 0; i < squarings; ++i) {
      if (with_phi1) {
        const std::vector<double> product = MatrixProduct(exp_, phi1_, n_);
        for (size_t e = 0; e < product.size(); ++e) {
          phi1_[e] = 0.5 * (product[e] + phi1_[e]);
        }
      }
      exp_ = MatrixProduct(exp_, exp_, n_);
      step *= 2;
      PutDiagonals(step);
    }
  }

  std::vector<double> exp(double factor) const { return Plain(exp_, factor); }
  std::vector<double> phi1() const { return Plain(phi1_, 1); }

 private:
  double At(int i, int j) const { return m_[i * n_ + j]; }

  // One block for all rows where the matrix is not quasi-triangular.
  std::vector<int> BlockOfRow() const {
    std::vector<int> block;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      block.insert(block.end(), blocks_[b], static_cast<int>(b));
    }
    block.resize(n_, 0);
    return block;
  }

  // phi1 = 1 + A/2 (1 + A/3 (...)), exp = 1 + A phi1.
  void Series(double step) {
    std::vector<double> scaled = m_;
    for (double& x : scaled) x *= step;
    phi1_.assign(m_.size(), 0.0);
    for (int i = 0; i < n_; ++i) phi1_[i * n_ + i] = 1;
    for (int k = kTerms; k >= 1; --k) {
      std::vector<double> next = MatrixProduct(scaled, phi1_, n_);
      for (double& x : next) x /= k;
      for (int i = 0; i < n_; ++i) next[i * n_ + i] += 1;
      (k > 1 ? phi1_ : exp_) = std::move(next);
    }
  }

  // Diagonal blocks of exp(step M) and the entries between neighbouring real
  // eigenvalues, from their closed forms.
  void PutDiagonals(double step) {
    int i = 0;
    for (size_t b = 0; b < blocks_.size(); i += blocks_[b++]) {
      const double growth = std::exp(step * At(i, i));
      double* const here = &exp_[i * n_ + i];
      if (blocks_[b] == 2) {
        const double above = At(i, i + 1), below = At(i + 1, i);
        const double omega = std::sqrt(-above * below);
        const double sine = std::sin(step * omega);
        here[0] = here[n_ + 1] = growth * std::cos(step * omega);
        here[1] = growth * sine * (above / omega);
        here[n_] = growth * sine * (below / omega);
        continue;
      }
      here[0] = growth;
      if (b + 1 < blocks_.size() && blocks_[b + 1] == 1) {
        here[1] = step * At(i, i + 1) *
                  DividedDifference(step * At(i, i), step * At(i + 1, i + 1));
      }
    }
  }

  // Takes the grading back.
  std::vector<double> Plain(std::vector<double> graded, double factor) const {
    for (int i = 0; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) {
        graded[i * n_ + j] *= factor * (grade_[i] / grade_[j]);
      }
    }
    return graded;
  }

  const int n_;
  const double lag_;
  std::vector<double> m_;
  const std::vector<int> blocks_;
  std::vector<double> grade_;
  std::vector<double> exp_, phi1_;
};

}  // namespace

std::vector<double> MatrixExp(absl::Span<const double> m, int n, double lag) {
  assert(m.size() == static_cast<size_t>(n) * n);
  Evaluation evaluation(m, n, lag);
  const double factor = evaluation.Shift();
  evaluation.Grade();
  evaluation.Run(false);
  return evaluation.exp(factor);
}

std::vector<double> MatrixPhi1(absl::Span<const double> m, int n, double lag) {
  assert(m.size() == static_cast<size_t>(n) * n);
  Evaluation evaluation(m, n, lag);
  evaluation.Grade();
  evaluation.Run(true);
  return evaluation.phi1();
}

}  // namespace attnd
