// Generators of one dense matrix, and how exact their exponential must be.
#ifndef ATTND_TESTS_KERNELS_DENSE_GENERATOR_H_
#define ATTND_TESTS_KERNELS_DENSE_GENERATOR_H_

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/statusor.h"
#include "kernels/generator.h"
#include "tests/kernels/matrix_oracle.h"

namespace attnd::testing {

inline constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

inline absl::StatusOr<Generator> Dense(const Matrix& x, int n) {
  return Generator::Make({DenseMatrixBlock{.dim = n, .matrix = x}}, n);
}

// What rounding of X may do to its exponential, by the condition stated.
inline double Bound(const Generator& generator, const Matrix& x, double lag,
                    const Matrix& expected) {
  return 100 * kEpsilon * generator.dim() * generator.condition() *
         (1 + std::abs(lag) * FrobeniusNorm(x)) *
         std::max(1.0, LargestEntry(expected));
}

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_DENSE_GENERATOR_H_
