// Runs a check on every instruction set of this machine, not only its best.
#ifndef ATTND_TESTS_KERNELS_EACH_TARGET_H_
#define ATTND_TESTS_KERNELS_EACH_TARGET_H_

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/softmax.h"
#include "kernels/tensor.h"

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

// For every element type as well: check(dtype).
template <typename Check>
void OnEachTypeAndTarget(Check check) {
  OnEachTarget([&] {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      SCOPED_TRACE(absl::StrCat("dtype ", static_cast<int>(dtype)));
      check(dtype);
    }
  });
}

}  // namespace attnd::testing

#endif  // ATTND_TESTS_KERNELS_EACH_TARGET_H_
