// Logits bounded softly: cap * tanh(logit / cap), as Gemma 2 has it.
#ifndef ATTND_KERNELS_SOFTCAP_H_
#define ATTND_KERNELS_SOFTCAP_H_

#include <cstdint>

namespace attnd {

// tanh within this relative error, for all arguments.
inline constexpr double kTanhRelativeError = 3e-7;

// values[i] = cap * tanh(values[i] / cap) in place; cap > 0 and finite. NaN
// stays NaN, infinities become +-cap.
void Softcap(float cap, float* values, int64_t count);

}  // namespace attnd

#endif  // ATTND_KERNELS_SOFTCAP_H_
