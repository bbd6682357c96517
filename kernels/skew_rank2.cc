#include "kernels/skew_rank2.h"

#include <Eigen/Dense>

namespace attnd {

DenseForm SplitSkewRank2(const SkewRank2Block& block) {
  using Matrix =
      Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const int n = static_cast<int>(block.a.size());
  DenseForm form;
  form.sum.dim = n;
  const auto a = Eigen::Map<const Eigen::VectorXd>(block.a.data(), n);
  const auto b = Eigen::Map<const Eigen::VectorXd>(block.b.data(), n);
  if (n == 2) {
    const double omega = block.frequency * (a[0] * b[1] - a[1] * b[0]);
    form.sum.planes = {{.first = 0, .second = 1, .omega = omega, .drive = {}}};
    return form;
  }
  const double length = a.stableNorm();
  if (!(length > 0)) return form;
  const Eigen::VectorXd u = a / length;
  // Twice, so that v is orthogonal to u however near b is to a.
  Eigen::VectorXd v = b - u * u.dot(b);
  v -= u * u.dot(v);
  const double width = v.stableNorm();
  if (!(width > 0)) return form;
  v /= width;

  Eigen::MatrixXd span(n, 2);
  span << u, v;
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(span);
  Matrix basis = qr.householderQ() * Eigen::MatrixXd::Identity(n, n);
  basis.col(0) = u;
  basis.col(1) = v;
  const Matrix inverse = basis.transpose();
  form.basis.assign(basis.data(), basis.data() + basis.size());
  form.basis_inverse.assign(inverse.data(), inverse.data() + inverse.size());
  form.sum.planes = {{.first = 0,
                      .second = 1,
                      .omega = block.frequency * length * width,
                      .drive = {}}};
  return form;
}

}  // namespace attnd
