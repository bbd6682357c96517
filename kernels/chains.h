// Decaying and polynomial parts of an encoding, applied to rows and blocks.
//
// Rule N4: A(t - s) = A(t - r) A(r - E) A(E - s) with E <= r chosen so that all
// three lags are >= 0. Nothing overflows, a factor underflows only when the
// true product does, and all powers of a Jordan part have one sign. Q^ = A(t -
// r)^T q and K^ = A(E - s) k are made once per tile, the middle factor once per
// pair of tiles; where times of queries and keys interleave, logits are made
// pair by pair.
//
// "factors" of one lag: e = exp(-rate tau) and z = coupling tau for every chain
// of a head, in the head's chain order (FactorCount floats each), then the
// matrix exponentials of its small blocks, row-major.
#ifndef ATTND_KERNELS_CHAINS_H_
#define ATTND_KERNELS_CHAINS_H_

#include <cstdint>
#include <vector>

#include "kernels/encoder.h"
#include "kernels/source_lags.h"

namespace attnd {

// Keys whose lags share a vector in the loops below.
inline constexpr int kKeyGroup = 16;

// Floats that the factors of one lag take.
int64_t FactorCount(const HeadEncoder& head);

// Fills `factors` for one lag per source. `mirrored` says that they are sizes
// of negative lags (the two-sided rule). Factors of a lag below 0 grow: exact
// to e^11, as others are, and infinite or NaN far beyond.
void MakeFactors(const HeadEncoder& head, const SourceLags& lags, bool mirrored,
                 float* factors);

// dst = A(tau)^T src for `rows` rows of `stride` floats in encoded order; may
// be in place.
void AdvanceQueries(const HeadEncoder& head, const float* factors,
                    const float* src, int rows, int64_t stride, float* dst);

// dst[r] = A(tau_r)^T src[r]: one lag per row and source, [sources, rows];
// may be in place.
void AdvanceQueriesByRow(const HeadEncoder& head, const SourceLags& lags,
                         bool mirrored, const float* src, int rows,
                         int64_t stride, float* dst);

// dst = A(tau) src for the columns of a block [stride, width], one lag for all
// columns; width is a multiple of 16 and `dst` has the same shape; may be in
// place. Rows beyond the head's positions are copied.
void AdvanceKeys(const HeadEncoder& head, const float* factors,
                 const float* src, int64_t src_width, int64_t positions,
                 int width, float* dst, int64_t dst_width);

// dst[., j] = A(tau_j) src[., j]: one lag per column and source, [sources,
// width], width a multiple of 16; may be in place.
void AdvanceKeysByColumn(const HeadEncoder& head, const SourceLags& lags,
                         bool mirrored, const float* src, int64_t src_width,
                         int64_t positions, int width, float* dst,
                         int64_t dst_width);

// exp(tau M) of a small block, row-major; of its mirror image for the sizes of
// negative lags.
std::vector<double> SmallExp(const HeadEncoder::Small& small, double tau,
                             bool mirrored);

}  // namespace attnd

#endif  // ATTND_KERNELS_CHAINS_H_
