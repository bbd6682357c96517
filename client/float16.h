// The two 16-bit formats as bits.
#ifndef ATTND_CLIENT_FLOAT16_H_
#define ATTND_CLIENT_FLOAT16_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace attnd::client {

// Exact.
inline float FloatFromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounded to the nearest, ties to even; a NaN stays one.
inline uint16_t Bf16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Exact.
inline float FloatFromF16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 0x3ff;
  float magnitude;
  if (exponent == 31) {
    magnitude = fraction == 0 ? HUGE_VALF : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return std::copysign(magnitude, (bits & 0x8000) != 0 ? -1.0f : 1.0f);
}

}  // namespace attnd::client

#endif  // ATTND_CLIENT_FLOAT16_H_
