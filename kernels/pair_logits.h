// Logits of 16 keys and single queries pair by pair, where the times of queries
// and keys interleave.
#ifndef ATTND_KERNELS_PAIR_LOGITS_H_
#define ATTND_KERNELS_PAIR_LOGITS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/chains.h"
#include "kernels/encoder.h"

namespace attnd {

// logits[j] = q^T A(lag_j) k_j for 16 keys of one query: k [positions, k_width]
// (16 columns read), lags [sources, 16], all >= 0. Rotations are already
// applied.
void PairLogits(const HeadEncoder& head, const float* q, const float* k,
                int64_t k_width, int64_t positions, const SourceLags& lags,
                float* logits);

// logits[j] += the share of some chains alone, from the same arrays and the
// lags in f32.
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

#endif  // ATTND_KERNELS_PAIR_LOGITS_H_
