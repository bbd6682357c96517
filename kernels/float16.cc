#include "kernels/float16.h"

#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/float16.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

// Both convert as many elements as fill whole vectors and return how many.

int64_t HalvesToFloats(bool bf16, const char* bytes, int64_t count,
                       float* HWY_RESTRICT out) {
  int64_t c = 0;
  const hn::CappedTag<float, 16> d;
  const int64_t n = hn::Lanes(d);
  if (bf16) {
    const hn::Rebind<uint16_t, decltype(d)> d16;
    const hn::Rebind<uint32_t, decltype(d)> d32;
    const auto* halves = reinterpret_cast<const uint16_t*>(bytes);
    for (; c + n <= count; c += n) {
      const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, halves + c));
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, out + c);
    }
  }
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if (!bf16) {
    const hn::Rebind<hwy::float16_t, decltype(d)> d16;
    const auto* halves = reinterpret_cast<const hwy::float16_t*>(bytes);
    for (; c + n <= count; c += n) {
      hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, halves + c)), d, out + c);
    }
  }
#endif
  return c;
}

int64_t FloatsToHalves(bool bf16, const float* HWY_RESTRICT values,
                       int64_t count, uint16_t* HWY_RESTRICT out) {
  int64_t c = 0;
  const hn::CappedTag<float, 16> d;
  const int64_t n = hn::Lanes(d);
  if (bf16) {
    const hn::Rebind<uint16_t, decltype(d)> d16;
    const hn::Rebind<int32_t, decltype(d)> di32;
    for (; c + n <= count; c += n) {
      const auto bits = Bf16Bits(d, hn::LoadU(d, values + c));
      hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, bits)), d16, out + c);
    }
  }
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  if (!bf16) {
    const hn::Rebind<hwy::float16_t, decltype(d)> d16;
    auto* halves = reinterpret_cast<hwy::float16_t*>(out);
    for (; c + n <= count; c += n) {
      hn::StoreU(hn::DemoteTo(d16, hn::LoadU(d, values + c)), d16, halves + c);
    }
  }
#endif
  return c;
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(HalvesToFloats);
HWY_EXPORT(FloatsToHalves);

float FromF16(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1Fu;
  const uint32_t mantissa = h & 0x3FFu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  // Infinity and NaN keep an all-ones exponent.
  return std::bit_cast<float>(
      sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13);
}

float FromBits(DType dtype, uint16_t bits) {
  return dtype == DType::kF16
             ? FromF16(bits)
             : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// bits >> shift, to the nearest, ties to even.
uint32_t RoundedShift(uint32_t bits, int shift) {
  const uint32_t half = uint32_t{1} << (shift - 1);
  return (bits + (half - 1) + (bits >> shift & 1)) >> shift;
}

uint16_t ToF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | (magnitude >> 13 & 0x3ffu);  // NaN
  } else if (magnitude >= 0x47800000u) {
    half = 0x7c00u;  // 65536 and more
  } else if (magnitude >= 0x38800000u) {
    half = RoundedShift(magnitude - (uint32_t{112} << 23), 13);
  } else if (magnitude < 0x33000000u) {
    half = 0;  // below half of the least subnormal
  } else {
    const int exponent = static_cast<int>(magnitude >> 23);
    half = RoundedShift((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent);
  }
  return static_cast<uint16_t>(sign | half);
}

uint16_t ToBF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  }
  return static_cast<uint16_t>(RoundedShift(bits, 16));
}

}  // namespace

float LoadElement(DType dtype, const char* bytes) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return FromBits(dtype, bits);
}

void FloatsFromHalves(DType dtype, const char* bytes, int64_t count,
                      float* out) {
  const bool bf16 = dtype == DType::kBF16;
  int64_t c = HWY_DYNAMIC_DISPATCH(HalvesToFloats)(bf16, bytes, count, out);
  for (; c < count; ++c) out[c] = LoadElement(dtype, bytes + 2 * c);
}

void HalvesFromFloats(DType dtype, const float* values, int64_t count,
                      uint16_t* out) {
  const bool bf16 = dtype == DType::kBF16;
  int64_t c = HWY_DYNAMIC_DISPATCH(FloatsToHalves)(bf16, values, count, out);
  for (; c < count; ++c) out[c] = bf16 ? ToBF16(values[c]) : ToF16(values[c]);
}

}  // namespace attnd
#endif  // HWY_ONCE
