// The exponential of a direct sum in double, in closed forms: for oracles.
#ifndef ATTND_KERNELS_DIRECT_SUM_EXP_H_
#define ATTND_KERNELS_DIRECT_SUM_EXP_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "kernels/direct_sum.h"

namespace attnd {

// E = exp(DX), or phi1(DX) where the sum is averaged, without channel_scale:
// row-major dim x dim.
struct DirectSumExp {
  std::vector<double> value;
  // E - 1, where it is small without the cancellation.
  std::vector<double> minus_identity;
};

// lag: of each drive. angles: of each plane [rad, whole turns left out]; empty
// = omega times the lags. absolute_lag: chains and small blocks take |D|,
// planes D.
DirectSumExp Exp(const DirectSum& sum,
                 absl::FunctionRef<double(const Drive&)> lag,
                 absl::Span<const double> angles, bool absolute_lag);

}  // namespace attnd

#endif  // ATTND_KERNELS_DIRECT_SUM_EXP_H_
