// The rank-2 skew generator of GRAPE as one plane.
#ifndef ATTND_KERNELS_SKEW_RANK2_H_
#define ATTND_KERNELS_SKEW_RANK2_H_

#include "kernels/dense.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// frequency (a b^T - b a^T) turns the plane of a and b by frequency s per unit,
// s^2 = |a|^2 |b|^2 - (a.b)^2, and leaves what is orthogonal to it: Rodrigues'
// formula. The basis is orthonormal, its first two columns span a and b; none
// where two channels need none, and no plane where a and b are parallel (s =
// 0). Source: GRAPE, ICLR 2026.
DenseForm SplitSkewRank2(const SkewRank2Block& block);

}  // namespace attnd

#endif  // ATTND_KERNELS_SKEW_RANK2_H_
