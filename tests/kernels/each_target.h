// Runs a check on every instruction set of this machine, not only its best.
#ifndef ATTND_TESTS_KERNELS_EACH_TARGET_H_
#define ATTND_TESTS_KERNELS_EACH_TARGET_H_

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>

#include "kernels/softmax.h"

namespace attnd::testing {

template <typename Check>
void OnEachTarget(Check check) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    SCOPED_TRACE(VectorTarget());
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_EACH_TARGET_H_
