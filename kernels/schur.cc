#include "kernels/schur.h"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/sylvester.h"

namespace attnd {
namespace {

using Matrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<Matrix>;

// Rounding of a Schur form of n rows, as a share of its norm.
double Rounding(int n) {
  return 10 * n * std::numeric_limits<double>::epsilon();
}

struct Components {
  std::vector<int> order;   // rows, upstream ones first
  std::vector<int> starts;  // of each component in `order`, and n
};

// Strongly connected components of the graph with an edge i -> j where m(i, j)
// is not 0, ordered so that edges go forward only.
Components ConnectedRows(const Matrix& m) {
  const int n = static_cast<int>(m.rows());
  std::vector<std::vector<char>> reaches(n, std::vector<char>(n, 0));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) reaches[i][j] = i == j || m(i, j) != 0;
  }
  for (int k = 0; k < n; ++k) {
    for (int i = 0; i < n; ++i) {
      if (!reaches[i][k]) continue;
      for (int j = 0; j < n; ++j) reaches[i][j] |= reaches[k][j];
    }
  }
  // A component reaches strictly more rows than those behind it.
  std::vector<int> reached(n), leader(n);
  for (int i = 0; i < n; ++i) {
    reached[i] = std::accumulate(reaches[i].begin(), reaches[i].end(), 0);
    leader[i] = i;
    for (int j = n - 1; j >= 0; --j) {
      if (reaches[i][j] && reaches[j][i]) leader[i] = j;
    }
  }
  Components components;
  components.order.resize(n);
  std::iota(components.order.begin(), components.order.end(), 0);
  std::stable_sort(components.order.begin(), components.order.end(),
                   [&](int a, int b) {
                     if (reached[a] != reached[b]) {
                       return reached[a] > reached[b];
                     }
                     return leader[a] < leader[b];
                   });
  for (int i = 0; i < n; ++i) {
    if (i == 0 ||
        leader[components.order[i]] != leader[components.order[i - 1]]) {
      components.starts.push_back(i);
    }
  }
  components.starts.push_back(n);
  return components;
}

// Schur form of a block that is not triangular. Eigen compares what it drops
// with neighbours on the diagonal, so repeated rotations, with zeros there, may
// never end; with the diagonal moved by the norm it compares with the norm.
Eigen::RealSchur<Eigen::MatrixXd> PlainSchur(const Eigen::MatrixXd& m,
                                             double shift) {
  const auto n = m.rows();
  return Eigen::RealSchur<Eigen::MatrixXd>(
      m + shift * Eigen::MatrixXd::Identity(n, n));
}

}  // namespace

bool SchurForm::Compute(absl::Span<const double> matrix, int n) {
  n_ = n;
  t_.assign(matrix.begin(), matrix.end());
  u_.assign(t_.size(), 0.0);
  error_.assign(n, 0.0);
  MatrixMap t(t_.data(), n, n), u(u_.data(), n, n);
  const Components components = ConnectedRows(t);
  Matrix order = Matrix::Zero(n, n);
  for (int i = 0; i < n; ++i) order(components.order[i], i) = 1;
  t = (order.transpose() * t * order).eval();
  u = order;
  for (size_t c = 0; c + 1 < components.starts.size(); ++c) {
    const int first = components.starts[c];
    const int size = components.starts[c + 1] - first;
    if (size == 1) continue;
    const Eigen::MatrixXd part = t.block(first, first, size, size);
    double shift = 0;
    Eigen::RealSchur<Eigen::MatrixXd> schur = PlainSchur(part, shift);
    if (schur.info() != Eigen::Success) {
      shift = part.norm();
      schur = PlainSchur(part, shift);
    }
    if (schur.info() != Eigen::Success) return false;
    const Matrix turn = schur.matrixU();
    t.middleRows(first, size) =
        (turn.transpose() * t.middleRows(first, size)).eval();
    t.middleCols(first, size) = (t.middleCols(first, size) * turn).eval();
    u.middleCols(first, size) = (u.middleCols(first, size) * turn).eval();
    // What rounding left above the diagonal of a normal matrix would count as a
    // coupling of equal eigenvalues.
    const double tolerance = Rounding(size) * part.norm();
    Matrix clean = schur.matrixT();
    clean = (clean.array().abs() <= tolerance).select(0.0, clean);
    clean.diagonal() = schur.matrixT().diagonal().array() - shift;
    t.block(first, first, size, size) = clean;
    std::fill_n(error_.begin() + first, size, tolerance);
    for (int i = first; i < first + size; i += block(i)) Standardise(i);
  }
  return true;
}

std::complex<double> SchurForm::eigenvalue(int i) const {
  if (block(i) == 1) return t(i, i);
  return {t(i, i), std::sqrt(-t(i, i + 1) * t(i + 1, i))};
}

// T := G^T T G, U := U G with G = [[c, -s], [s, c]] in rows i, i + 1.
void SchurForm::Rotate(int i, double cosine, double sine) {
  MatrixMap t(t_.data(), n_, n_), u(u_.data(), n_, n_);
  Eigen::Matrix2d turn;
  turn << cosine, -sine, sine, cosine;
  t.middleRows(i, 2) = (turn.transpose() * t.middleRows(i, 2)).eval();
  t.middleCols(i, 2) = (t.middleCols(i, 2) * turn).eval();
  u.middleCols(i, 2) = (u.middleCols(i, 2) * turn).eval();
}

// Gives the 2x2 block at row i equal diagonal entries, or splits it when its
// eigenvalues are real.
void SchurForm::Standardise(int i) {
  if (block(i) == 1) return;
  double* const a = &t_[i * n_ + i];
  double* const b = a + 1;
  double* const c = a + n_;
  double* const d = c + 1;
  if (*a != *d) {
    const double angle = std::atan2(*d - *a, *b + *c) / 2;
    Rotate(i, std::cos(angle), std::sin(angle));
    *a = *d = (*a + *d) / 2;
  }
  if (*b * *c < 0) return;
  // [[a, b], [c, a]], b c >= 0: the eigenvector of a + sqrt(b c) first.
  const double root = std::sqrt(*b * *c);
  const double length = std::hypot(*b, root);
  if (length > 0) {
    Rotate(i, *b / length, root / length);
  } else {
    Rotate(i, 0, 1);
  }
  *c = 0;
}

bool SchurForm::SwapWithNext(int i) {
  const int p = block(i), q = block(i + p), rows = p + q;
  MatrixMap t(t_.data(), n_, n_), u(u_.data(), n_, n_);
  const Matrix window = t.block(i, i, rows, rows);
  TinyMatrix first = {}, second = {}, right = {};
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 2; ++c) {
      if (r < p && c < p) first[r][c] = window(r, c);
      if (r < q && c < q) second[r][c] = window(p + r, p + c);
      if (r < p && c < q) right[r][c] = window(r, p + c);
    }
  }
  const TinyMatrix y = SolveSylvester(first, p, second, q, right);
  // [-Y; 1] spans the invariant subspace of the second block.
  Eigen::MatrixXd subspace(rows, q);
  for (int c = 0; c < q; ++c) {
    for (int r = 0; r < p; ++r) subspace(r, c) = -y[r][c];
    for (int r = 0; r < q; ++r) subspace(p + r, c) = r == c;
  }
  if (!subspace.allFinite()) return false;
  const Matrix turn = subspace.householderQr().householderQ();
  const Matrix turned = turn.transpose() * window * turn;
  const double tolerance = Rounding(rows) * window.norm();
  if (turned.bottomLeftCorner(p, q).norm() > tolerance) return false;

  t.middleRows(i, rows) = (turn.transpose() * t.middleRows(i, rows)).eval();
  t.middleCols(i, rows) = (t.middleCols(i, rows) * turn).eval();
  u.middleCols(i, rows) = (u.middleCols(i, rows) * turn).eval();
  t.block(i + q, i, p, q).setZero();
  const double moved = std::max(
      tolerance,
      *std::max_element(error_.begin() + i, error_.begin() + i + rows));
  std::fill_n(error_.begin() + i, rows, moved);
  if (q == 2) Standardise(i);
  if (p == 2) Standardise(i + q);
  return true;
}

}  // namespace attnd
