// A dense generator as planes, chains and small blocks in a well-conditioned
// basis.
#ifndef ATTND_KERNELS_DENSE_H_
#define ATTND_KERNELS_DENSE_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/direct_sum.h"

namespace attnd {

// X = V (sum) V^-1, channels counted from 0; both matrices row-major, empty
// where no basis is needed.
struct DenseForm {
  DirectSum sum;
  std::vector<double> basis, basis_inverse;
  double condition = 1;  // of the basis, in the 2-norm
};

// Brings X to real Schur form, sorts it into clusters of eigenvalues that a
// well-conditioned transformation can part, and names each: a real eigenvalue
// is a chain of one, a complex pair a plane (with two chains of one when it
// decays), an exact Jordan block a chain, every other cluster a small block.
// Never an eigendecomposition near a defective X.
//
//   matrix  X, [n, n] row-major, per unit, finite
//
// A real part within rounding of 0 counts as 0: a skew X gives planes alone.
// INVALID_ARGUMENT with `path` when an eigenvalue grows: its real part, for a
// cluster that rounding cannot tell from one multiple eigenvalue the real part
// of the mean, exceeds kGrowthTolerance * |X| (Frobenius). CANCELLED when
// `stop` becomes true, looked at between steps; n = 128 takes up to a quarter
// of a second in about six.
absl::StatusOr<DenseForm> SplitDense(absl::Span<const double> matrix, int n,
                                     const std::string& path,
                                     const std::atomic<bool>* stop = nullptr);

}  // namespace attnd

#endif  // ATTND_KERNELS_DENSE_H_
