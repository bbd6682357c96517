// Changes of basis around a generator.
#ifndef ATTND_KERNELS_BASIS_H_
#define ATTND_KERNELS_BASIS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace attnd {

// a b, all row-major n x n.
std::vector<double> MatrixProduct(absl::Span<const double> a,
                                  absl::Span<const double> b, int n);

// Condition number in the 2-norm, from the eigenvalues of P^T P: right to 8
// digits up to 1e4, to 4 at kMaxCondition; from 1e8 on it may come out
// infinite.
double ConditionNumber(absl::Span<const double> matrix, int n);

// P^-1 and the condition number of P in the 2-norm (infinite if P is singular).
struct InverseBasis {
  std::vector<double> inverse;
  double condition = 1;
};
InverseBasis Invert(absl::Span<const double> basis, int n);

// STRING's orthogonal P = (I - S)(I + S)^-1, S skew with the strictly lower
// triangle `lower`, row by row: S(1,0), S(2,0), S(2,1), ... INVALID_ARGUMENT
// with `path` unless there are dim (dim - 1) / 2 finite entries.
absl::StatusOr<std::vector<double>> CayleyBasis(absl::Span<const double> lower,
                                                int dim,
                                                const std::string& path);

}  // namespace attnd

#endif  // ATTND_KERNELS_BASIS_H_
