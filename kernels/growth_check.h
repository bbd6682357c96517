// Polynomials of the lag that leave the range of floats.
#ifndef ATTND_KERNELS_GROWTH_CHECK_H_
#define ATTND_KERNELS_GROWTH_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/encoder.h"
#include "kernels/visibility.h"

namespace attnd {

// A Jordan block of size n multiplies by up to max (c D)^(n-1)/(n-1)! e^(-rD).
// INVALID_ARGUMENT when that passes kMostGrowth within the visible lags of the
// item (`number` in the message): its scores would be infinite. Blocks along
// learned clocks and coordinates other than the first are not looked at.
inline constexpr double kMostGrowth = 1e37;
absl::Status CheckGrowth(const Encoder& encoder, int64_t kv_heads,
                         const ItemGeometry& item, int64_t number);

}  // namespace attnd

#endif  // ATTND_KERNELS_GROWTH_CHECK_H_
