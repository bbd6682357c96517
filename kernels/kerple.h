// KERPLE (Chi et al. 2022): -r1 ln(1 + r2 |D|) or -r1 |D|^r2.
#ifndef ATTND_KERNELS_KERPLE_H_
#define ATTND_KERNELS_KERPLE_H_

#include <memory>

#include "kernels/clock.h"
#include "kernels/encoding_spec.h"
#include "kernels/lag_tile.h"

namespace attnd {

// Expects a term that passed CheckBiasTerm and CheckBiasHeads (bias_checks.h).
//
std::unique_ptr<LagTerm> MakeKerple(const KerpleTerm& term, int query_heads,
                                    const TickRatio& ratio);

}  // namespace attnd

#endif  // ATTND_KERNELS_KERPLE_H_
