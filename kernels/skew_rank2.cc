#include "kernels/skew_rank2.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace attnd {
namespace {

using Vector = std::vector<double>;

double Dot(const Vector& x, const Vector& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

// Divides x by its length, which it returns; 0 leaves x as it is.
double Normalise(Vector& x) {
  double largest = 0;
  for (double e : x) largest = std::max(largest, std::abs(e));
  if (largest == 0) return 0;
  for (double& e : x) e /= largest;
  const double length = std::sqrt(Dot(x, x));
  for (double& e : x) e /= length;
  return length * largest;
}

void Subtract(const Vector& direction, Vector& x) {
  const double along = Dot(direction, x);
  for (size_t i = 0; i < x.size(); ++i) x[i] -= along * direction[i];
}

// The reflection that maps the unit vector e_axis to `target` or to -target,
// whichever is further away, applied to column `axis` and all behind it of a
// row-major n x n matrix from the right. `target` is 0 before `axis`.
void Reflect(const Vector& target, int axis, Vector& matrix) {
  const int n = static_cast<int>(target.size());
  Vector normal = target;
  normal[axis] += target[axis] >= 0 ? 1 : -1;
  Normalise(normal);
  for (int i = 0; i < n; ++i) {
    double along = 0;
    for (int j = axis; j < n; ++j) along += matrix[i * n + j] * normal[j];
    for (int j = axis; j < n; ++j) {
      matrix[i * n + j] -= 2 * along * normal[j];
    }
  }
}

// An orthogonal matrix with columns u, v, ...
Vector Complete(const Vector& u, const Vector& v) {
  const int n = static_cast<int>(u.size());
  Vector matrix(static_cast<size_t>(n) * n);
  for (int c = 0; c < n; ++c) matrix[c * n + c] = 1;
  Reflect(u, 0, matrix);
  // v as the first reflection sees it.
  Vector turned(n);
  for (int i = 0; i < n; ++i) {
    for (int j = 1; j < n; ++j) turned[j] += matrix[i * n + j] * v[i];
  }
  Normalise(turned);
  Reflect(turned, 1, matrix);
  for (int i = 0; i < n; ++i) {
    matrix[i * n] = u[i];
    matrix[i * n + 1] = v[i];
  }
  return matrix;
}

}  // namespace

DenseForm SplitSkewRank2(const SkewRank2Block& block) {
  const int n = static_cast<int>(block.a.size());
  DenseForm form;
  form.sum.dim = n;
  if (n == 2) {
    const double area = block.a[0] * block.b[1] - block.a[1] * block.b[0];
    form.sum.planes = {{.first = 0,
                        .second = 1,
                        .omega = block.frequency * area,
                        .drive = {}}};
    return form;
  }
  Vector u = block.a, v = block.b;
  const double length = Normalise(u);
  // Twice, so that v is orthogonal to u however near b is to a.
  Subtract(u, v);
  Subtract(u, v);
  const double width = Normalise(v);
  if (length == 0 || width == 0) return form;
  form.basis = Complete(u, v);
  form.basis_inverse.resize(form.basis.size());
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      form.basis_inverse[j * n + i] = form.basis[i * n + j];
    }
  }
  form.sum.planes = {{.first = 0,
                      .second = 1,
                      .omega = block.frequency * length * width,
                      .drive = {}}};
  return form;
}

}  // namespace attnd
