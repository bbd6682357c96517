// Real Schur form with eigenvalues in any order.
#ifndef ATTND_KERNELS_SCHUR_H_
#define ATTND_KERNELS_SCHUR_H_

#include <complex>
#include <vector>

#include "absl/types/span.h"

namespace attnd {

// X = U T U^T, U orthogonal, T upper quasi-triangular: 1x1 blocks, and 2x2
// blocks with equal diagonal entries and complex eigenvalues.
//
// What X couples in one direction only stays apart: rows are first ordered by
// who reaches whom, so that the eigenvalues of a triangular matrix in any order
// of rows, and of a direct sum, are exact.
class SchurForm {
 public:
  // matrix: [n, n] row-major, finite. False when the iteration does not
  // converge.
  bool Compute(absl::Span<const double> matrix, int n);

  int n() const { return n_; }
  double t(int row, int column) const { return t_[row * n_ + column]; }
  double u(int row, int column) const { return u_[row * n_ + column]; }

  // Rows of the diagonal block that starts at row i: 1 or 2.
  int block(int i) const { return i + 1 < n_ && t(i + 1, i) != 0 ? 2 : 1; }
  // Its eigenvalue, the one with imaginary part >= 0.
  std::complex<double> eigenvalue(int i) const;

  // How far rounding may have moved a well-conditioned eigenvalue in row i; 0
  // where no rounding took place.
  double error(int i) const { return error_[i]; }

  // Exchanges the block at row i with the one that follows it. False, with T
  // and U as they were, when their eigenvalues are too close to tell apart.
  bool SwapWithNext(int i);

 private:
  void Standardise(int i);
  void Rotate(int i, double cosine, double sine);

  int n_ = 0;
  std::vector<double> t_, u_;
  std::vector<double> error_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_SCHUR_H_
