// What a cluster of eigenvalues is: a plane, a chain, or a small block.
#ifndef ATTND_KERNELS_NAMED_CLUSTER_H_
#define ATTND_KERNELS_NAMED_CLUSTER_H_

#include <vector>

#include "kernels/schur.h"

namespace attnd {

struct NamedCluster {
  enum class Kind { kPlane, kChain, kSmall };

  int first = 0, rows = 0;  // in the Schur form
  Kind kind = Kind::kSmall;
  // The real part that decides about growth: the mean of what rounding cannot
  // tell from one multiple eigenvalue, else the largest.
  double real_part = 0;
  // -real_part; 0 where that is within rounding of 0, or grows.
  double rate = 0;
  double omega = 0;     // of a plane
  double coupling = 0;  // of a chain
  // Of a plane: its columns of V must be divided and multiplied by
  // sqrt(stretch) to make the block [[-rate, omega], [-omega, -rate]].
  double stretch = 1;
  // Of a small block, row-major: itself, and its rotation (direct_sum.h).
  std::vector<double> matrix, rotation;
};

// Names the cluster of `rows` rows from `first` on.
//
//   sensitivity  |columns of V| |rows of V^-1| of the cluster: how much
//   rounding
//                moves its eigenvalues
//   norm         |X|
//
// A real eigenvalue is a chain of one, a complex pair a plane unless its
// columns are too unlike in length, a I + c N to the bit a chain of up to 4,
// everything else a small block.
NamedCluster NameCluster(const SchurForm& schur, int first, int rows,
                         double sensitivity, double norm);

}  // namespace attnd

#endif  // ATTND_KERNELS_NAMED_CLUSTER_H_
