// Between the states that streams carry and the sums of one head.
#ifndef ATTND_KERNELS_LINEAR_CARRY_H_
#define ATTND_KERNELS_LINEAR_CARRY_H_

#include <cstdint>

#include "kernels/encoder.h"
#include "kernels/linear_held.h"
#include "kernels/linear_normaliser.h"
#include "kernels/linear_plan.h"
#include "kernels/linear_state.h"
#include "kernels/linear_sums.h"
#include "kernels/linear_walk.h"

namespace attnd {

// One kv head of an item, and the way over its rows. Borrows all.
struct LinearHead {
  const LinearPlan& plan;
  int64_t item, kv_head;
  const HeadEncoder* encoder;  // null: the identity
  LinearWalk& walk;
};

// The final state's references, zero sums; segments fill the rest.
LinearState StartState(const LinearPlan& plan);

// The state that the problem brings, in the item's frame; zeros without one.
void LoadState(const LinearHead& at, LinearSums& sums);

// The sums at the last key, or as they came where there is none, and what is
// kept beside them.
void StoreState(const LinearHead& at, const LinearSums& sums,
                const LinearNormaliser& normaliser, HeldKeys& held,
                LinearState& state);

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_CARRY_H_
