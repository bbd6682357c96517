#include "kernels/bf16_pack.h"

#include <algorithm>

#include "kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bf16_pack.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/bf16-inl.h"
#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

// Two rows as one of pairs.
HWY_INLINE void PackPair(const float* HWY_RESTRICT even,
                         const float* HWY_RESTRICT odd, int64_t columns,
                         uint16_t* HWY_RESTRICT out) {
  const hn::CappedTag<float, 16> d;
  const hn::Rebind<uint32_t, decltype(d)> d32;
  const int64_t n = hn::Lanes(d);
  auto* pairs = reinterpret_cast<uint32_t*>(out);
  for (int64_t c = 0; c < kKeyBlock; c += n) {
    auto low = hn::Zero(d32), high = hn::Zero(d32);
    if (c < columns) {
      low = Bf16Bits(d, LoadFirst(d, even + c, columns - c));
      if (odd != nullptr) {
        high = Bf16Bits(d, LoadFirst(d, odd + c, columns - c));
      }
    }
    hn::StoreU(hn::Or(hn::ShiftLeft<16>(high), low), d32, pairs + c);
  }
}

void PackBf16Impl(const float* rows, int64_t stride, int64_t depth,
                  int64_t columns, uint16_t* out) {
  for (int64_t r = 0; r < depth; r += 2, out += 2 * kKeyBlock) {
    PackPair(rows + r * stride,
             r + 1 < depth ? rows + (r + 1) * stride : nullptr, columns, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(PackBf16Impl);

uint16_t* HalfBuffer::Reserve(int64_t count) {
  return reinterpret_cast<uint16_t*>(floats_.Reserve((count + 1) / 2));
}

void PackBf16(const float* rows, int64_t stride, int64_t depth, int64_t columns,
              uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(PackBf16Impl)(rows, stride, depth, columns, out);
  const int64_t written = (depth + 1) / 2 * 2 * kKeyBlock;
  std::fill(out + written, out + Bf16Depth(depth) * kKeyBlock, uint16_t{0});
}

}  // namespace attnd
#endif  // HWY_ONCE
