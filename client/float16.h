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

// Rounded to the nearest, ties to even; a NaN stays one; from 65520 on
// infinity.
inline uint16_t F16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < 0x1p-14f) {  // a multiple of 2^-24, to 2^-14 itself
    return sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24f));
  }
  const uint32_t rebiased = (bits & 0x7fffffff) - (112u << 23);
  return sign |
         static_cast<uint16_t>((rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13);
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
