// Exponential of a small real matrix in double, for blocks without a closed
// form.
#ifndef ATTND_KERNELS_MATRIX_EXP_H_
#define ATTND_KERNELS_MATRIX_EXP_H_

#include <vector>

#include "absl/types/span.h"

namespace attnd {

// exp(lag M), row-major n x n.
//
//   m    [n, n] row-major, finite;  lag  finite, any sign
//
// By scaling, Taylor series and squaring. For an upper quasi-triangular M (2x2
// blocks on the diagonal with equal diagonal entries and complex eigenvalues)
// the error is relative to the entries of the answer, however stiff M and long
// the lag: the eigenvalue that grows most is shifted to the imaginary axis, the
// matrix is graded by powers of two so that couplings cost no squarings, and
// diagonal blocks are put in exactly after every squaring (Al-Mohy and Higham
// 2009). For any other M the error is about n * |lag M| * 2^-52 of the norm.
// exp(0) is the identity exactly.
std::vector<double> MatrixExp(absl::Span<const double> m, int n, double lag);

// phi1(lag M) = int_0^1 exp(u lag M) du, in the same way, without the shift:
// for stable M and lag >= 0.
std::vector<double> MatrixPhi1(absl::Span<const double> m, int n, double lag);

}  // namespace attnd

#endif  // ATTND_KERNELS_MATRIX_EXP_H_
