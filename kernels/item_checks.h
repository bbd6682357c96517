// What Plan::Make refuses in one item: what times, order and visibility decide.
#ifndef ATTND_KERNELS_ITEM_CHECKS_H_
#define ATTND_KERNELS_ITEM_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/plan.h"

namespace attnd {

// Everything that needs the geometry of one item of the plan: negative visible
// lags under a one-sided encoding (first pair and count), learned clocks that
// run backwards or are not finite, powers of lags that floats do not hold, a
// bias of NaN or +inf where visible.
absl::Status CheckItem(const Plan& plan, int64_t item);

// Whether a block of the head decays, or has a small matrix, along the source
// of that number (Encoder::sources).
bool DecaysAlong(const HeadEncoder& head, int source);

}  // namespace attnd

#endif  // ATTND_KERNELS_ITEM_CHECKS_H_
