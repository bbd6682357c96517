// Sandwich (Chi et al. 2023): (sum_{i=1..d/2} cos(D base^(-2i/d)) - d/2) /
// (8h/H) for query head h = 1..H.
#ifndef ATTND_KERNELS_SANDWICH_H_
#define ATTND_KERNELS_SANDWICH_H_

#include <memory>

#include "kernels/clock.h"
#include "kernels/encoding_spec.h"
#include "kernels/lag_tile.h"

namespace attnd {

// |bias - exact| <= kSandwichError * max(1, |bias|); up to 2.3e-7 was seen.
inline constexpr double kSandwichError = 3e-7;

// Expects a term that passed CheckBiasTerm (bias_checks.h). 1 - cos(a - b) is
// half the squared distance of the points a and b of the circle, which cancels
// nothing, and 1 - a . b where that cancels little; points stand at exact
// phases (rule N2). One sum per pair serves all heads.
std::unique_ptr<LagTerm> MakeSandwich(const SandwichTerm& term, int query_heads,
                                      const TickRatio& ratio);

}  // namespace attnd

#endif  // ATTND_KERNELS_SANDWICH_H_
