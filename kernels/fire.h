// FIRE (Li et al. 2024): f(psi(D) / psi(max(t_rel, L))), psi(x) = ln(1 + |c
// x|), f an MLP 1 -> h -> heads with ReLU, t_rel the query's time since the
// earliest valid key.
#ifndef ATTND_KERNELS_FIRE_H_
#define ATTND_KERNELS_FIRE_H_

#include <memory>

#include "kernels/clock.h"
#include "kernels/encoding_spec.h"
#include "kernels/lag_tile.h"

namespace attnd {

// Added to the logarithmic normaliser, as published.
inline constexpr double kFireEpsilon = 1e-6;

// Expects a term that passed CheckBiasTerm and CheckBiasSizes (bias_checks.h).
// f is piecewise linear with a knot per hidden unit: along a row it is a line
// per run of keys over ln(1 + |c D|), which all heads share. Its inner terms
// count into S: Size = sum |w2| (|w1| u + |b1|) over active units + |b2|.
std::unique_ptr<LagTerm> MakeFire(const FireTerm& term, int query_heads,
                                  const TickRatio& ratio);

}  // namespace attnd

#endif  // ATTND_KERNELS_FIRE_H_
