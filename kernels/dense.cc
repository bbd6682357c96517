#include "kernels/dense.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/basis.h"
#include "kernels/block_diagonal.h"
#include "kernels/field_checks.h"
#include "kernels/named_cluster.h"
#include "kernels/schur.h"

namespace attnd {
namespace {

// Entries of the parting transformations tried, largest first: smaller ones
// leave larger clusters and a better condition.
constexpr double kLargestEntries[] = {100, 10, 1, 0};
// A basis as good as this is taken at once. Well below kMaxCondition: the error
// of every f32 row grows with it, that of a larger cluster does not.
constexpr double kGoodCondition = 1e3;

double Norm(const std::vector<double>& m) {
  double sum = 0;
  for (double x : m) sum += x * x;
  return std::sqrt(sum);
}

// |columns of V| |rows of V^-1| of a cluster.
double Sensitivity(const BlockDiagonal& form, int first, int rows, int n) {
  double columns = 0, inverse_rows = 0;
  for (int c = first; c < first + rows; ++c) {
    for (int i = 0; i < n; ++i) {
      columns += form.v[i * n + c] * form.v[i * n + c];
      inverse_rows += form.v_inverse[c * n + i] * form.v_inverse[c * n + i];
    }
  }
  return std::sqrt(columns) * std::sqrt(inverse_rows);
}

// Makes the columns of a plane equally long.
void Stretch(const NamedCluster& plane, int n, BlockDiagonal& form) {
  if (plane.stretch == 1) return;
  const double root = std::sqrt(plane.stretch);
  for (int i = 0; i < n; ++i) {
    form.v[i * n + plane.first] /= root;
    form.v[i * n + plane.first + 1] *= root;
    form.v_inverse[plane.first * n + i] *= root;
    form.v_inverse[(plane.first + 1) * n + i] /= root;
  }
}

// Adds a cluster to the sum, on the channels from `channel` on.
void AddPart(NamedCluster cluster, int channel, DirectSum& sum) {
  std::vector<int> channels(cluster.rows);
  std::iota(channels.begin(), channels.end(), channel);
  if (cluster.kind == NamedCluster::Kind::kSmall) {
    sum.small_blocks.push_back({.channels = std::move(channels),
                                .matrix = std::move(cluster.matrix),
                                .rotation = std::move(cluster.rotation),
                                .rate = cluster.rate,
                                .drive = {}});
  } else if (cluster.kind == NamedCluster::Kind::kChain) {
    if (cluster.rate == 0 && cluster.rows == 1) return;
    sum.chains.push_back({.channels = std::move(channels),
                          .rate = cluster.rate,
                          .coupling = cluster.coupling,
                          .drive = {}});
  } else {
    sum.planes.push_back({.first = channel,
                          .second = channel + 1,
                          .omega = cluster.omega,
                          .drive = {}});
    for (int c = 0; cluster.rate > 0 && c < 2; ++c) {
      sum.chains.push_back(
          {.channels = {channel + c}, .rate = cluster.rate, .drive = {}});
    }
  }
}

// Channels: planes first, then chains, then small blocks.
DenseForm Assemble(std::vector<NamedCluster> clusters,
                   const BlockDiagonal& form, int n) {
  std::stable_sort(clusters.begin(), clusters.end(),
                   [](const NamedCluster& a, const NamedCluster& b) {
                     return a.kind < b.kind;
                   });
  DenseForm dense;
  dense.sum.dim = n;
  dense.basis.resize(form.v.size());
  dense.basis_inverse.resize(form.v.size());
  int channel = 0;
  for (NamedCluster& cluster : clusters) {
    const int first = cluster.first, rows = cluster.rows;
    for (int c = 0; c < rows; ++c) {
      for (int i = 0; i < n; ++i) {
        dense.basis[i * n + channel + c] = form.v[i * n + first + c];
        dense.basis_inverse[(channel + c) * n + i] =
            form.v_inverse[(first + c) * n + i];
      }
    }
    AddPart(std::move(cluster), channel, dense.sum);
    channel += rows;
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

}  // namespace

absl::StatusOr<DenseForm> SplitDense(absl::Span<const double> matrix, int n,
                                     const std::string& path,
                                     const std::atomic<bool>* stop) {
  const auto stopped = [stop] {
    return stop != nullptr && stop->load(std::memory_order_relaxed);
  };
  if (stopped()) return absl::CancelledError("stopped");
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
  const double norm = Norm(scaled);

  SchurForm schur;
  if (!schur.Compute(scaled, n)) {
    return Refuse(path, "no Schur form after the largest number of iterations",
                  "a matrix whose eigenvalues can be found");
  }
  BlockDiagonal form;
  for (double largest_entry : kLargestEntries) {
    if (stopped()) return absl::CancelledError("stopped");
    form = SplitClusters(largest_entry, schur);
    if (form.condition <= kGoodCondition) break;
  }
  std::vector<NamedCluster> clusters;
  int first = 0;
  for (int rows : form.clusters) {
    clusters.push_back(NameCluster(schur, first, rows,
                                   Sensitivity(form, first, rows, n), norm));
    const NamedCluster& cluster = clusters.back();
    if (cluster.real_part > kGrowthTolerance * norm) {
      return Refuse(
          path,
          absl::StrCat(rows > 2 ? "the mean of a cluster of eigenvalues"
                                : "an eigenvalue",
                       " with real part ", cluster.real_part * scale),
          absl::StrCat("at most ", kGrowthTolerance * norm * scale, ", ",
                       kGrowthTolerance, " |X|"));
    }
    Stretch(cluster, n, form);
    first += rows;
  }
  DenseForm dense = Assemble(std::move(clusters), form, n);
  Multiply(scale, dense.sum);
  FoldPermutation(dense);
  if (!dense.basis.empty()) {
    dense.condition = ConditionNumber(dense.basis, n);
  }
  return dense;
}

}  // namespace attnd
