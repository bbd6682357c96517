// Sylvester equations of single blocks of a Schur form.
#ifndef ATTND_KERNELS_SYLVESTER_H_
#define ATTND_KERNELS_SYLVESTER_H_

#include <array>

namespace attnd {

// A block of at most 2 x 2 entries.
using TinyMatrix = std::array<std::array<double, 2>, 2>;

// Y with A Y - Y B = R, A of p rows and B of q rows, by elimination with
// complete pivoting. 0 for R = 0; not finite where A and B share an eigenvalue
// and R is in the way.
TinyMatrix SolveSylvester(const TinyMatrix& a, int p, const TinyMatrix& b,
                          int q, const TinyMatrix& r);

}  // namespace attnd

#endif  // ATTND_KERNELS_SYLVESTER_H_
