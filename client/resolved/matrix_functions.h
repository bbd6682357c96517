// exp and phi1 of general matrices in double, by scaling and squaring.
#ifndef ATTND_CLIENT_RESOLVED_MATRIX_FUNCTIONS_H_
#define ATTND_CLIENT_RESOLVED_MATRIX_FUNCTIONS_H_

#include <cstddef>
#include <vector>

namespace attnd::client::resolved {

// A square matrix, row-major.
struct Matrix {
  explicit Matrix(int size = 0)
      : size(size), entries(static_cast<size_t>(size) * size) {}
  static Matrix Identity(int size);

  double& operator()(int row, int column) {
    return entries[row * size + column];
  }
  double operator()(int row, int column) const {
    return entries[row * size + column];
  }

  int size = 0;
  std::vector<double> entries;
};

Matrix operator*(const Matrix& a, const Matrix& b);

// By LU with partial pivoting; of a singular matrix: infinities.
Matrix Inverse(const Matrix& m);

// exp(m). The largest diagonal entry is taken out first, so that a common decay
// of any size underflows to 0 instead of losing what it multiplies.
Matrix Exponential(const Matrix& m);

// phi1(m) = (exp(m) - 1) m^-1 = the mean of exp(u m) over u in [0, 1].
Matrix AveragedExponential(const Matrix& m);

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_MATRIX_FUNCTIONS_H_
