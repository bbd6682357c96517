#include "kernels/dense.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/block_diagonal.h"
#include "kernels/field_checks.h"
#include "kernels/schur.h"

namespace attnd {
namespace {

using Matrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Entries of the parting transformations tried, largest first: smaller ones
// leave larger clusters and a better condition.
constexpr double kLargestEntries[] = {100, 10, 1, 0};
// A basis that is as good as this is taken at once. Well below kMaxCondition:
// the error of every f32 row grows with it, that of a larger cluster does not.
constexpr double kGoodCondition = 1e3;
// Columns of a plane whose lengths differ by more stay a small block.
constexpr double kMaxStretch = 32;
// Order of chain that the loops have closed forms for.
constexpr int kMaxChain = 4;

// A cluster that has been named: its columns of V, in the order of its
// channels.
struct Named {
  int first = 0, rows = 0;  // in V
  enum class Kind { kPlane, kChain, kSmall } kind = Kind::kSmall;
  double omega = 0, rate = 0, coupling = 0;
  std::vector<double> matrix, rotation;
};

class Namer {
 public:
  // norm: of the matrix in the Schur form, which is X / scale.
  Namer(const SchurForm& schur, BlockDiagonal& form, double norm, double scale)
      : schur_(schur), form_(form), norm_(norm), scale_(scale), n_(schur.n()) {}

  // False when a cluster grows; `refusal` then says which.
  bool Run(std::string& refusal) {
    int first = 0;
    for (int rows : form_.clusters) {
      Named named{.first = first, .rows = rows, .matrix = {}, .rotation = {}};
      if (!Settle(named, refusal)) return false;
      if (!(rows == 1 || NamePlane(named) || NameChain(named))) {
        NameSmall(named);
      }
      if (rows == 1) named.kind = Named::Kind::kChain;
      named_.push_back(std::move(named));
      first += rows;
    }
    return true;
  }

  DenseForm Build() &&;

 private:
  Matrix Block(const Named& named) const {
    Matrix block(named.rows, named.rows);
    for (int i = 0; i < named.rows; ++i) {
      for (int j = 0; j < named.rows; ++j) {
        block(i, j) = schur_.t(named.first + i, named.first + j);
      }
    }
    return block;
  }

  // What rounding may have moved an eigenvalue of the cluster by.
  double Error(const Named& named) const {
    Eigen::Map<const Matrix> v(form_.v.data(), n_, n_);
    Eigen::Map<const Matrix> inverse(form_.v_inverse.data(), n_, n_);
    double error = 0;
    for (int i = named.first; i < named.first + named.rows; ++i) {
      error = std::max(error, schur_.error(i));
    }
    return error * v.middleCols(named.first, named.rows).norm() *
           inverse.middleRows(named.first, named.rows).norm();
  }

  // Finds the cluster's rate, and by how much its diagonal must be lowered so
  // that rounding makes nothing grow.
  bool Settle(Named& named, std::string& refusal) {
    const Matrix block = Block(named);
    const double mean = block.trace() / named.rows;
    const double largest = block.diagonal().maxCoeff();
    const double error = Error(named);
    // A defective eigenvalue of order m moves by the m-th root.
    const double spread =
        error == 0 || named.rows == 1
            ? 0
            : block.norm() * std::pow(error / norm_, 1.0 / named.rows);
    double real_part = largest - mean <= spread ? mean : largest;
    if (real_part > kGrowthTolerance * norm_) {
      refusal =
          absl::StrCat(named.rows > 2 ? "the mean of a cluster of eigenvalues"
                                      : "an eigenvalue",
                       " with real part ", real_part * scale_);
      return false;
    }
    lowered_ = real_part > 0 || std::abs(real_part) <= error ? real_part : 0;
    named.rate = lowered_ != 0 || real_part == 0 ? 0 : -real_part;
    error_ = error;
    return true;
  }

  // A 2x2 block with complex eigenvalues, stretched to [[a, w], [-w, a]].
  bool NamePlane(Named& named) {
    if (named.rows != 2 || schur_.block(named.first) != 2) return false;
    const double above = schur_.t(named.first, named.first + 1);
    const double below = schur_.t(named.first + 1, named.first);
    double stretch = std::sqrt(-below / above);
    if (std::abs(std::abs(above) - std::abs(below)) <= error_) stretch = 1;
    if (!(stretch <= kMaxStretch && 1 / stretch <= kMaxStretch)) return false;
    Eigen::Map<Matrix> v(form_.v.data(), n_, n_);
    Eigen::Map<Matrix> inverse(form_.v_inverse.data(), n_, n_);
    const double root = std::sqrt(stretch);
    v.col(named.first) /= root;
    v.col(named.first + 1) *= root;
    inverse.row(named.first) *= root;
    inverse.row(named.first + 1) /= root;
    named.kind = Named::Kind::kPlane;
    named.omega = std::copysign(std::sqrt(-above * below), above);
    return true;
  }

  // a I + c N, to the bit.
  bool NameChain(Named& named) const {
    if (named.rows > kMaxChain) return false;
    const Matrix block = Block(named);
    for (int i = 0; i < named.rows; ++i) {
      for (int j = 0; j < named.rows; ++j) {
        const double expected = j == i       ? block(0, 0)
                                : j == i + 1 ? block(0, 1)
                                             : 0;
        if (block(i, j) != expected) return false;
      }
    }
    named.kind = Named::Kind::kChain;
    named.coupling = block(0, 1);
    return true;
  }

  void NameSmall(Named& named) const {
    Matrix block = Block(named);
    block.diagonal().array() -= lowered_;
    named.kind = Named::Kind::kSmall;
    named.matrix.assign(block.data(), block.data() + block.size());
    named.rotation = Rotation(named, block);
  }

  // W of a cluster of complex pairs: its mean frequency times the matrix J with
  // the eigenvectors of the block and eigenvalues i and -i (Newton's iteration
  // for the sign function, turned by i). Empty for real clusters.
  std::vector<double> Rotation(const Named& named, const Matrix& block) const {
    double omega = 0;
    for (int i = named.first; i < named.first + named.rows; i += 2) {
      if (schur_.block(i) != 2) return {};
      omega += schur_.eigenvalue(i).imag() * 2 / named.rows;
    }
    Matrix turn = block / omega;
    turn.diagonal().array() -= turn.trace() / named.rows;
    for (int i = 0; i < 60; ++i) {
      const Matrix next = 0.5 * (turn - turn.inverse());
      const double change = (next - turn).norm();
      turn = next;
      if (change <= 1e-15 * turn.norm()) break;
    }
    turn *= omega;
    if (!turn.allFinite()) return {};
    return std::vector<double>(turn.data(), turn.data() + turn.size());
  }

  const SchurForm& schur_;
  BlockDiagonal& form_;
  const double norm_, scale_;
  const int n_;
  double lowered_ = 0, error_ = 0;  // of the cluster being named
  std::vector<Named> named_;
};

// Channels: planes first, then chains, then small blocks.
DenseForm Namer::Build() && {
  std::stable_sort(
      named_.begin(), named_.end(),
      [](const Named& a, const Named& b) { return a.kind < b.kind; });
  DenseForm dense;
  dense.sum.dim = n_;
  dense.basis.resize(form_.v.size());
  dense.basis_inverse.resize(form_.v.size());
  int channel = 0;
  for (Named& named : named_) {
    for (int c = 0; c < named.rows; ++c) {
      for (int i = 0; i < n_; ++i) {
        dense.basis[i * n_ + channel + c] = form_.v[i * n_ + named.first + c];
        dense.basis_inverse[(channel + c) * n_ + i] =
            form_.v_inverse[(named.first + c) * n_ + i];
      }
    }
    std::vector<int> channels(named.rows);
    std::iota(channels.begin(), channels.end(), channel);
    channel += named.rows;
    if (named.kind == Named::Kind::kSmall) {
      dense.sum.small_blocks.push_back({.channels = std::move(channels),
                                        .matrix = std::move(named.matrix),
                                        .rotation = std::move(named.rotation),
                                        .rate = named.rate,
                                        .drive = {}});
    } else if (named.kind == Named::Kind::kChain) {
      if (named.rate == 0 && named.rows == 1) continue;
      dense.sum.chains.push_back({.channels = std::move(channels),
                                  .rate = named.rate,
                                  .coupling = named.coupling,
                                  .drive = {}});
    } else {
      dense.sum.planes.push_back({.first = channels[0],
                                  .second = channels[1],
                                  .omega = named.omega,
                                  .drive = {}});
      for (int c = 0; named.rate > 0 && c < 2; ++c) {
        dense.sum.chains.push_back(
            {.channels = {channels[c]}, .rate = named.rate, .drive = {}});
      }
    }
  }
  return dense;
}

// A basis that only renames channels is folded into the parts.
void FoldPermutation(DenseForm& dense) {
  const int n = dense.sum.dim;
  std::vector<int> row_of(n, -1);
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < n; ++i) {
      const double entry = dense.basis[i * n + j];
      if (entry == 0) continue;
      if (entry != 1 || row_of[j] != -1) return;
      row_of[j] = i;
    }
  }
  for (Plane& plane : dense.sum.planes) {
    plane.first = row_of[plane.first];
    plane.second = row_of[plane.second];
  }
  for (Chain& chain : dense.sum.chains) {
    for (int& channel : chain.channels) channel = row_of[channel];
  }
  for (SmallBlock& block : dense.sum.small_blocks) {
    for (int& channel : block.channels) channel = row_of[channel];
  }
  dense.basis.clear();
  dense.basis_inverse.clear();
}

void Multiply(double factor, DirectSum& sum) {
  for (Plane& plane : sum.planes) plane.omega *= factor;
  for (Chain& chain : sum.chains) {
    chain.rate *= factor;
    chain.coupling *= factor;
  }
  for (SmallBlock& block : sum.small_blocks) {
    block.rate *= factor;
    for (double& x : block.matrix) x *= factor;
    for (double& x : block.rotation) x *= factor;
  }
}

double ConditionOf(const std::vector<double>& basis, int n) {
  if (basis.empty()) return 1;
  const Eigen::VectorXd singular =
      Eigen::BDCSVD<Eigen::MatrixXd>(
          Eigen::Map<const Matrix>(basis.data(), n, n))
          .singularValues();
  return singular[0] / singular[n - 1];
}

}  // namespace

absl::StatusOr<DenseForm> SplitDense(absl::Span<const double> matrix, int n,
                                     const std::string& path) {
  double largest = 0;
  for (double x : matrix) {
    absl::Status status = CheckFinite(path, x);
    if (!status.ok()) return status;
    largest = std::max(largest, std::abs(x));
  }
  // Powers of two change no digit, and keep products within range.
  const double scale = largest == 0 ? 1 : std::exp2(std::ilogb(largest));
  std::vector<double> scaled(matrix.begin(), matrix.end());
  for (double& x : scaled) x /= scale;
  const double norm = Eigen::Map<const Matrix>(scaled.data(), n, n).norm();

  SchurForm schur;
  if (!schur.Compute(scaled, n)) {
    return Refuse(path, "no Schur form after the largest number of iterations",
                  "a matrix whose eigenvalues can be found");
  }
  BlockDiagonal form;
  for (double largest_entry : kLargestEntries) {
    form = SplitClusters(largest_entry, schur);
    if (form.condition <= kGoodCondition) break;
  }
  Namer namer(schur, form, norm, scale);
  std::string refusal;
  if (!namer.Run(refusal)) {
    return Refuse(path, refusal,
                  absl::StrCat("at most ", kGrowthTolerance * norm * scale,
                               ", ", kGrowthTolerance, " |X|"));
  }
  DenseForm dense = std::move(namer).Build();
  Multiply(scale, dense.sum);
  FoldPermutation(dense);
  dense.condition = ConditionOf(dense.basis, n);
  return dense;
}

}  // namespace attnd
