#include "kernels/basis.h"

#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <cassert>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

using Matrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const Matrix> View(absl::Span<const double> m, int n) {
  assert(m.size() == static_cast<size_t>(n) * n);
  return Eigen::Map<const Matrix>(m.data(), n, n);
}

std::vector<double> Flat(const Matrix& m) {
  return std::vector<double>(m.data(), m.data() + m.size());
}

}  // namespace

std::vector<double> MatrixProduct(absl::Span<const double> a,
                                  absl::Span<const double> b, int n) {
  return Flat(View(a, n) * View(b, n));
}

double ConditionNumber(absl::Span<const double> matrix, int n) {
  if (n == 0) return 1;
  const Eigen::MatrixXd square = View(matrix, n).transpose() * View(matrix, n);
  const Eigen::VectorXd values = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(
                                     square, Eigen::EigenvaluesOnly)
                                     .eigenvalues();
  if (!(values[0] > 0)) return std::numeric_limits<double>::infinity();
  return std::sqrt(values[n - 1] / values[0]);
}

InverseBasis Invert(absl::Span<const double> basis, int n) {
  const double condition = ConditionNumber(basis, n);
  if (!std::isfinite(condition)) return {.inverse = {}, .condition = condition};
  return {.inverse = Flat(View(basis, n).partialPivLu().inverse()),
          .condition = condition};
}

absl::StatusOr<std::vector<double>> CayleyBasis(absl::Span<const double> lower,
                                                int dim,
                                                const std::string& path) {
  absl::Status status =
      CheckCount(path, lower.size(), static_cast<size_t>(dim) * (dim - 1) / 2,
                 "dim (dim - 1) / 2");
  if (!status.ok()) return status;
  Matrix skew = Matrix::Zero(dim, dim);
  size_t next = 0;
  for (int i = 1; i < dim; ++i) {
    for (int j = 0; j < i; ++j, ++next) {
      status = CheckFinite(absl::StrCat(path, "[", next, "]"), lower[next]);
      if (!status.ok()) return status;
      skew(i, j) = lower[next];
      skew(j, i) = -lower[next];
    }
  }
  // (I - S) and (I + S)^-1 commute, so P solves (I + S) P = I - S.
  const Matrix one = Matrix::Identity(dim, dim);
  return Flat((one + skew).partialPivLu().solve(one - skew));
}

}  // namespace attnd
