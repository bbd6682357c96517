// That the order of units changes no byte of an answer.
#ifndef ATTND_TESTS_KERNELS_UNIT_ORDER_H_
#define ATTND_TESTS_KERNELS_UNIT_ORDER_H_

#include <cstddef>

#include "kernels/plan.h"
#include "tests/kernels/problem_builder.h"

namespace attnd::testing {

// Runs the units in random orders, each on one of two workspaces, which stay
// within what the plan predicts. There must be so many units at least, so that
// there is an order.
void ExpectTheSameBytesInAnyOrder(const ProblemSpec& spec,
                                  const OutputSet& outputs, size_t least_units,
                                  Random& random);

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_UNIT_ORDER_H_
