#include "kernels/block_diagonal.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/basis.h"
#include "kernels/sylvester.h"

namespace attnd {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Splitter {
 public:
  Splitter(double largest_entry, SchurForm& schur)
      : largest_entry_(largest_entry), schur_(schur), n_(schur.n()) {}

  BlockDiagonal Run() {
    for (int first = 0; first < n_;) {
      int rows = schur_.block(first);
      while (first + rows < n_ &&
             !Decouple(first, rows, largest_entry_).has_value()) {
        rows = Join(first, rows);
      }
      result_.clusters.push_back(rows);
      first += rows;
    }
    Transform();
    ScaleColumns();
    result_.condition = ConditionNumber(result_.v, n_);
    return std::move(result_);
  }

 private:
  TinyMatrix Block(int row, int column, int rows, int columns) const {
    TinyMatrix block = {};
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        block[i][j] = schur_.t(row + i, column + j);
      }
    }
    return block;
  }

  // Y, [rows, n - behind], with T11 Y - Y T22 = -T12: T11 the `rows` rows from
  // `first` on, T22 all from `behind` = first + rows on. Nothing when an entry
  // exceeds the limit.
  std::optional<std::vector<double>> Decouple(int first, int rows,
                                              double limit) const {
    const int behind = first + rows, rest = n_ - behind;
    std::vector<double> y(static_cast<size_t>(rows) * rest);
    for (int j = 0, q = 0; j < rest; j += q) {
      q = schur_.block(behind + j);
      const TinyMatrix b = Block(behind + j, behind + j, q, q);
      for (int i = rows; i > 0;) {
        const int p =
            i >= 2 && schur_.t(first + i - 1, first + i - 2) != 0 ? 2 : 1;
        i -= p;
        TinyMatrix right = {};
        for (int e = 0; e < p; ++e) {
          for (int c = 0; c < q; ++c) {
            double sum = -schur_.t(first + i + e, behind + j + c);
            for (int l = 0; l < j; ++l) {
              sum +=
                  y[(i + e) * rest + l] * schur_.t(behind + l, behind + j + c);
            }
            for (int k = i + p; k < rows; ++k) {
              sum -= schur_.t(first + i + e, first + k) * y[k * rest + j + c];
            }
            right[e][c] = sum;
          }
        }
        const TinyMatrix solved =
            SolveSylvester(Block(first + i, first + i, p, p), p, b, q, right);
        for (int e = 0; e < p; ++e) {
          for (int c = 0; c < q; ++c) {
            if (!(std::abs(solved[e][c]) <= limit)) return std::nullopt;
            y[(i + e) * rest + j + c] = solved[e][c];
          }
        }
      }
    }
    return y;
  }

  // The mean real part and the largest imaginary part of a cluster.
  std::complex<double> Centre(int first, int rows) const {
    double real = 0, imaginary = 0;
    for (int i = first; i < first + rows; i += schur_.block(i)) {
      real += schur_.eigenvalue(i).real() * schur_.block(i) / rows;
      imaginary = std::max(imaginary, schur_.eigenvalue(i).imag());
    }
    return {real, imaginary};
  }

  // Brings the eigenvalue nearest to the cluster next to it; the new row count.
  int Join(int first, int rows) {
    const std::complex<double> centre = Centre(first, rows);
    int nearest = first + rows;
    for (int i = nearest; i < n_; i += schur_.block(i)) {
      if (std::abs(schur_.eigenvalue(i) - centre) <
          std::abs(schur_.eigenvalue(nearest) - centre)) {
        nearest = i;
      }
    }
    const int size = schur_.block(nearest);
    while (nearest > first + rows) {
      const int before =
          nearest - first - rows >= 2 && schur_.block(nearest - 2) == 2 ? 2 : 1;
      // Too close to be told apart from what stands between: take that too.
      if (!schur_.SwapWithNext(nearest - before)) return nearest + size - first;
      nearest -= before;
    }
    return rows + size;
  }

  // V = U Z_1 Z_2 ..., Z_k = 1 + Y_k parting cluster k from all behind it;
  // V^-1 = ... (1 - Y_2) (1 - Y_1) U^T.
  void Transform() {
    result_.v.resize(static_cast<size_t>(n_) * n_);
    result_.v_inverse.resize(result_.v.size());
    for (int i = 0; i < n_; ++i) {
      for (int j = 0; j < n_; ++j) {
        result_.v[i * n_ + j] = result_.v_inverse[j * n_ + i] = schur_.u(i, j);
      }
    }
    int first = 0;
    for (int rows : result_.clusters) {
      // Only an exact multiple eigenvalue has no finite solution, and Run() has
      // found one.
      const std::vector<double> y =
          Decouple(first, rows, kInfinity)
              .value_or(std::vector<double>(static_cast<size_t>(rows) *
                                            (n_ - first - rows)));
      Part(first, rows, y);
      first += rows;
    }
  }

  void Part(int first, int rows, const std::vector<double>& y) {
    const int behind = first + rows, rest = n_ - behind;
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < rest; ++j) {
        const double factor = y[i * rest + j];
        if (factor == 0) continue;
        for (int e = 0; e < n_; ++e) {
          result_.v[e * n_ + behind + j] +=
              result_.v[e * n_ + first + i] * factor;
          result_.v_inverse[(first + i) * n_ + e] -=
              factor * result_.v_inverse[(behind + j) * n_ + e];
        }
      }
    }
  }

  // One power of two per cluster: changes nothing within it.
  void ScaleColumns() {
    int first = 0;
    for (int rows : result_.clusters) {
      double largest = 0;
      for (int c = first; c < first + rows; ++c) {
        double square = 0;
        for (int i = 0; i < n_; ++i) {
          square += result_.v[i * n_ + c] * result_.v[i * n_ + c];
        }
        largest = std::max(largest, square);
      }
      const double scale = std::exp2(-std::round(std::log2(largest) / 2));
      for (int c = first; c < first + rows; ++c) {
        for (int i = 0; i < n_; ++i) {
          result_.v[i * n_ + c] *= scale;
          result_.v_inverse[c * n_ + i] /= scale;
        }
      }
      first += rows;
    }
  }

  const double largest_entry_;
  SchurForm& schur_;
  const int n_;
  BlockDiagonal result_;
};

}  // namespace

BlockDiagonal SplitClusters(double largest_entry, SchurForm& schur) {
  return Splitter(largest_entry, schur).Run();
}

}  // namespace attnd
