#include "client/resolved/matrix_functions.h"

#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <unsupported/Eigen/MatrixFunctions>

namespace attnd::client::resolved {
namespace {

using EigenMatrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::Map<const EigenMatrix> ViewOf(const Matrix& m) {
  return {m.entries.data(), m.size, m.size};
}

Matrix Copy(const EigenMatrix& m) {
  Matrix out(static_cast<int>(m.rows()));
  Eigen::Map<EigenMatrix>(out.entries.data(), out.size, out.size) = m;
  return out;
}

}  // namespace

Matrix Matrix::Identity(int size) {
  Matrix m(size);
  for (int i = 0; i < size; ++i) m(i, i) = 1;
  return m;
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  return Copy(ViewOf(a) * ViewOf(b));
}

Matrix Inverse(const Matrix& m) { return Copy(ViewOf(m).inverse()); }

Matrix Exponential(const Matrix& m) {
  if (m.size == 0) return m;
  EigenMatrix shifted = ViewOf(m);
  const double growth = shifted.diagonal().maxCoeff();
  shifted.diagonal().array() -= growth;
  const EigenMatrix value = shifted.exp();
  return Copy(std::exp(growth) * value);
}

// Halved until small; phi1(2 z) = (exp(z) + 1) phi1(z) / 2.
Matrix AveragedExponential(const Matrix& m) {
  if (m.size == 0) return m;
  EigenMatrix z = ViewOf(m);
  int halvings = 0;
  for (; z.cwiseAbs().rowwise().sum().maxCoeff() > 0.5; ++halvings) z /= 2;
  const EigenMatrix one = EigenMatrix::Identity(m.size, m.size);
  EigenMatrix average = one;
  for (int k = 18; k >= 1; --k) average = one + z * average / (k + 1.0);
  for (; halvings > 0; --halvings, z *= 2) {
    const EigenMatrix power = z.exp();
    average = (0.5 * (power * average + average)).eval();
  }
  return Copy(average);
}

}  // namespace attnd::client::resolved
