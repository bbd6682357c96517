// Real Schur form -> block-diagonal form by well-conditioned transformations.
#ifndef ATTND_KERNELS_BLOCK_DIAGONAL_H_
#define ATTND_KERNELS_BLOCK_DIAGONAL_H_

#include <vector>

#include "kernels/schur.h"

namespace attnd {

// X = V B V^-1, B block-diagonal with the clusters below; all row-major n x n.
struct BlockDiagonal {
  std::vector<double> v, v_inverse;
  // Condition number of v in the 2-norm.
  double condition = 1;
  // Rows of each cluster in B, in order; B's block of a cluster is the diagonal
  // block of the Schur form there, upper quasi-triangular.
  std::vector<int> clusters;
};

// Splits the Schur form into clusters of eigenvalues that a transformation with
// entries up to `largest_entry` parts from the rest, reordering it for that;
// columns of v have norms near 1. 0 keeps together whatever is coupled.
// Source: Bavely and Stewart 1979.
BlockDiagonal SplitClusters(double largest_entry, SchurForm& schur);

}  // namespace attnd

#endif  // ATTND_KERNELS_BLOCK_DIAGONAL_H_
