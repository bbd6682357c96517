#include "kernels/sylvester.h"

#include <cmath>
#include <utility>

namespace attnd {
namespace {

// Up to 4 equations, the right side in the column behind them.
struct System {
  int size = 0;
  std::array<std::array<double, 5>, 4> row = {};
  std::array<int, 4> unknown = {0, 1, 2, 3};
};

// Moves the largest entry of what is left to (k, k).
void Pivot(int k, System& s) {
  int best_row = k, best_column = k;
  for (int i = k; i < s.size; ++i) {
    for (int j = k; j < s.size; ++j) {
      if (std::abs(s.row[i][j]) > std::abs(s.row[best_row][best_column])) {
        best_row = i;
        best_column = j;
      }
    }
  }
  std::swap(s.row[k], s.row[best_row]);
  for (int i = 0; i < s.size; ++i) {
    std::swap(s.row[i][k], s.row[i][best_column]);
  }
  std::swap(s.unknown[k], s.unknown[best_column]);
}

std::array<double, 4> Solve(System& s) {
  const int right = s.size;
  for (int k = 0; k < s.size; ++k) {
    Pivot(k, s);
    for (int i = k + 1; i < s.size; ++i) {
      if (s.row[i][k] == 0) continue;
      const double factor = s.row[i][k] / s.row[k][k];
      for (int j = k; j <= right; ++j) s.row[i][j] -= factor * s.row[k][j];
    }
  }
  std::array<double, 4> solution = {};
  for (int k = s.size - 1; k >= 0; --k) {
    double sum = s.row[k][right];
    for (int j = k + 1; j < s.size; ++j) {
      sum -= s.row[k][j] * solution[s.unknown[j]];
    }
    solution[s.unknown[k]] = sum == 0 ? 0 : sum / s.row[k][k];
  }
  return solution;
}

}  // namespace

TinyMatrix SolveSylvester(const TinyMatrix& a, int p, const TinyMatrix& b,
                          int q, const TinyMatrix& r) {
  System s{.size = p * q};
  for (int i = 0; i < p; ++i) {
    for (int j = 0; j < q; ++j) {
      std::array<double, 5>& row = s.row[i * q + j];
      for (int k = 0; k < p; ++k) row[k * q + j] += a[i][k];
      for (int k = 0; k < q; ++k) row[i * q + k] -= b[k][j];
      row[s.size] = r[i][j];
    }
  }
  const std::array<double, 4> solution = Solve(s);
  TinyMatrix y = {};
  for (int i = 0; i < p; ++i) {
    for (int j = 0; j < q; ++j) y[i][j] = solution[i * q + j];
  }
  return y;
}

}  // namespace attnd
