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

#include "kernels/encoder.h"

namespace attnd {

// Keys whose lags share a vector in the loops below.
inline constexpr int kKeyGroup = 16;

// Floats that the factors of one lag take.
int64_t FactorCount(const HeadEncoder& head);

// Fills `factors` for lags `tau` >= 0 in units, one per source. `mirrored` says
// that they are sizes of negative lags (the two-sided rule).
void MakeFactors(const HeadEncoder& head, const float* tau, bool mirrored,
                 float* factors);

// dst = A(tau)^T src for `rows` rows of `stride` floats in encoded order; may
// be in place.
void AdvanceQueries(const HeadEncoder& head, const float* factors,
                    const float* src, int rows, int64_t stride, float* dst);

// dst = A(tau) src for the columns of a block [stride, width], one lag for all
// columns; width is a multiple of 16 and `dst` has the same shape; may be in
// place. Rows beyond the head's positions are copied.
void AdvanceKeys(const HeadEncoder& head, const float* factors,
                 const float* src, int64_t src_width, int64_t positions,
                 int width, float* dst, int64_t dst_width);

// dst[., j] = A(tau_j) src[., j]: one lag per column and source, tau [sources,
// width], width a multiple of 16; may be in place.
void AdvanceKeysByColumn(const HeadEncoder& head, const float* tau,
                         bool mirrored, const float* src, int64_t src_width,
                         int64_t positions, int width, float* dst,
                         int64_t dst_width);

// logits[j] = q^T A(tau_j) k_j for 16 keys of one query: k [positions, k_width]
// (16 columns read), tau [sources, 16], all >= 0. Rotations are already
// applied.
void PairLogits(const HeadEncoder& head, const float* q, const float* k,
                int64_t k_width, int64_t positions, const float* tau,
                float* logits);

// logits[j] += the share of some chains alone, from the same arrays.
void AddChainLogits(const HeadEncoder& head, absl::Span<const int> chains,
                    const float* q, const float* k, int64_t k_width,
                    const float* tau, float* logits);

// The times of up to 16 rows and 16 keys, both ascending, as what lies between
// neighbours: with w_r[j] = A(t_r - s_j), w_r = A(gap_r) w_(r-1) from the row
// on at which a key enters.
struct Interleaving {
  alignas(64) float gap[kKeyGroup];          // t_r - t_(r-1); 0 for the first
  alignas(64) float entry_lag[kKeyGroup];    // t_row - s_j at entry_row[j]
  alignas(64) int32_t entry_row[kKeyGroup];  // first row with t >= s_j
};

// logits[r, j] += the share of some chains of order 1 for rows r at or after a
// key's entry: two exponentials per chain instead of one per row. All chains
// have the source that `times` is of. q [rows, stride], k as above.
void AddDecayLogits(const HeadEncoder& head, absl::Span<const int> chains,
                    const Interleaving& times, const float* q, int rows,
                    int64_t stride, const float* k, int64_t k_width,
                    float* logits, int64_t logit_stride);

// PairLogits with phi1(D X) in place of exp(D X) and without any rotation
// applied before; lags may have any sign: signed drives rotations, |.| decays
// when absolute_lag. Double inside, scalar.
void AveragedLogits(const Encoder& encoder, const HeadEncoder& head,
                    const float* q, const float* k, int64_t k_width,
                    const double* lag, float* logits);

}  // namespace attnd

#endif  // ATTND_KERNELS_CHAINS_H_
