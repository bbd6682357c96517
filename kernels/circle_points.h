// cos and sin of exact phases (rule N2), correctly rounded but for 4e-9.
#ifndef ATTND_KERNELS_CIRCLE_POINTS_H_
#define ATTND_KERNELS_CIRCLE_POINTS_H_

#include <cstdint>

namespace attnd {

// |cos - exact| and |sin - exact| of a point.
inline constexpr double kCirclePointError = 3.2e-8;

// cosine[i], sine[i] of phases[i] / 2^64 turns, i < count. Outputs do not
// overlap the input.
void CirclePoints(const uint64_t* phases, int64_t count, float* cosine,
                  float* sine);

}  // namespace attnd

#endif  // ATTND_KERNELS_CIRCLE_POINTS_H_
