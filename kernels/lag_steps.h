// Biases that are piecewise linear in the lag: T5 buckets, HSTU time buckets,
// tables over lag. Borders are int64 ticks: no logarithm runs per pair.
#ifndef ATTND_KERNELS_LAG_STEPS_H_
#define ATTND_KERNELS_LAG_STEPS_H_

#include <memory>
#include <vector>

#include "kernels/clock.h"
#include "kernels/encoding_spec.h"
#include "kernels/lag_runs.h"
#include "kernels/lag_tile.h"

namespace attnd {

// All factories expect terms that passed CheckBiasTerm (bias_checks.h) and
// CheckBiasHeads.

// Raffel et al. 2020. Bucket of past lag D in units, nb buckets per direction,
// m = nb/2: floor(D) below m, else m + floor(ln(D/m) / ln(max_distance/m) *
// (nb - m)), at most nb - 1. Future keys share bucket 0, or have buckets nb + n
// of their own when bidirectional; |D| < 1 counts as 0 on both sides.
std::unique_ptr<LagTerm> MakeT5(const T5Term& term, int query_heads,
                                const TickRatio& ratio);

// min(floor(ln(max(1, |D|)) / log_step), max_bucket).
std::unique_ptr<LagTerm> MakeHstu(const HstuTerm& term, int query_heads,
                                  const TickRatio& ratio);

// Linear between knots, constant beyond the first and the last.
std::unique_ptr<LagTerm> MakeLagTable(const LagTableTerm& term, int query_heads,
                                      const TickRatio& ratio);

// The least lag in units of each bucket from 1 on.
std::vector<long double> T5Borders(const T5Term& term);
std::vector<long double> HstuBorders(const HstuTerm& term);

}  // namespace attnd

#endif  // ATTND_KERNELS_LAG_STEPS_H_
