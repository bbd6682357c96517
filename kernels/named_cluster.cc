#include "kernels/named_cluster.h"

#include <algorithm>
#include <cmath>

#include "kernels/basis.h"
#include "kernels/direct_sum.h"

namespace attnd {
namespace {

// Columns of a plane whose lengths differ by more stay a small block: their
// basis would be no better than that of a defective pair.
constexpr double kMaxStretch = 32;
// Order of chain that the loops have closed forms for.
// Newton's iteration for the sign converges quadratically.
constexpr int kMaxSignSteps = 60;

double Norm(const std::vector<double>& m) {
  double sum = 0;
  for (double x : m) sum += x * x;
  return std::sqrt(sum);
}

class Naming {
 public:
  Naming(const SchurForm& schur, int first, int rows)
      : schur_(schur), first_(first), rows_(rows) {
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < rows; ++j) {
        block_.push_back(schur.t(first + i, first + j));
      }
    }
    named_.first = first;
    named_.rows = rows;
  }

  NamedCluster Run(double sensitivity, double norm) {
    Settle(sensitivity, norm);
    if (rows_ == 1) {
      named_.kind = NamedCluster::Kind::kChain;
    } else if (!NamePlane() && !NameChain()) {
      NameSmall();
    }
    return std::move(named_);
  }

 private:
  double At(int i, int j) const { return block_[i * rows_ + j]; }

  // Rate and real part, and by how much the diagonal must be lowered so that
  // rounding makes nothing grow.
  void Settle(double sensitivity, double norm) {
    double mean = 0, largest = At(0, 0);
    for (int i = 0; i < rows_; ++i) {
      mean += At(i, i) / rows_;
      largest = std::max(largest, At(i, i));
      error_ = std::max(error_, schur_.error(first_ + i) * sensitivity);
    }
    // A defective eigenvalue of order m moves by the m-th root.
    const double spread =
        error_ == 0 || rows_ == 1
            ? 0
            : Norm(block_) * std::pow(error_ / norm, 1.0 / rows_);
    const double decides = largest - mean <= spread ? mean : largest;
    named_.real_part = decides;
    lowered_ = decides > 0 || std::abs(decides) <= error_ ? decides : 0;
    named_.rate = lowered_ != 0 || decides == 0 ? 0 : -decides;
  }

  // A 2x2 block with complex eigenvalues.
  bool NamePlane() {
    if (rows_ != 2 || At(1, 0) == 0) return false;
    const double above = At(0, 1), below = At(1, 0);
    double stretch = std::sqrt(-below / above);
    if (std::abs(std::abs(above) - std::abs(below)) <= error_) stretch = 1;
    if (!(stretch <= kMaxStretch && 1 / stretch <= kMaxStretch)) return false;
    named_.kind = NamedCluster::Kind::kPlane;
    named_.stretch = stretch;
    named_.omega = std::copysign(std::sqrt(-above * below), above);
    return true;
  }

  // a I + c N, to the bit.
  bool NameChain() {
    if (rows_ > kMaxJets) return false;
    for (int i = 0; i < rows_; ++i) {
      for (int j = 0; j < rows_; ++j) {
        const double expected = j == i ? At(0, 0) : j == i + 1 ? At(0, 1) : 0;
        if (At(i, j) != expected) return false;
      }
    }
    named_.kind = NamedCluster::Kind::kChain;
    named_.coupling = At(0, 1);
    return true;
  }

  void NameSmall() {
    named_.kind = NamedCluster::Kind::kSmall;
    for (int i = 0; i < rows_; ++i) block_[i * rows_ + i] -= lowered_;
    named_.matrix = block_;
    named_.rotation = Rotation();
  }

  // W of a cluster of complex pairs: its mean frequency times the matrix J with
  // the eigenvectors of the block and eigenvalues i and -i, the limit of
  // (J - J^-1) / 2. Empty for real clusters.
  std::vector<double> Rotation() const {
    double omega = 0, mean = 0;
    for (int i = 0; i < rows_; i += 2) {
      if (schur_.block(first_ + i) != 2) return {};
      omega += schur_.eigenvalue(first_ + i).imag() * 2 / rows_;
      mean += At(i, i) * 2 / rows_;
    }
    std::vector<double> turn = block_;
    for (int i = 0; i < rows_; ++i) turn[i * rows_ + i] -= mean;
    for (double& x : turn) x /= omega;
    for (int step = 0; step < kMaxSignSteps; ++step) {
      const std::vector<double> inverse = Invert(turn, rows_).inverse;
      if (inverse.empty()) return {};
      std::vector<double> change(turn.size());
      for (size_t e = 0; e < turn.size(); ++e) {
        change[e] = -(turn[e] + inverse[e]) / 2;
        turn[e] += change[e];
      }
      if (Norm(change) <= 1e-15 * Norm(turn)) break;
    }
    for (double& x : turn) x *= omega;
    return turn;
  }

  const SchurForm& schur_;
  const int first_, rows_;
  std::vector<double> block_;
  double error_ = 0;    // what rounding may have moved an eigenvalue by
  double lowered_ = 0;  // what the diagonal is lowered by
  NamedCluster named_;
};

}  // namespace

NamedCluster NameCluster(const SchurForm& schur, int first, int rows,
                         double sensitivity, double norm) {
  return Naming(schur, first, rows).Run(sensitivity, norm);
}

}  // namespace attnd
