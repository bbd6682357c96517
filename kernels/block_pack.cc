#include "kernels/block_pack.h"

#include <algorithm>

#include "kernels/gemm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_pack.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/bf16-inl.h"
#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void PackBlockImpl(const float* rows, int64_t count, int64_t padded,
                   float* block) {
  std::fill(block, block + padded * kKeyBlock, 0.0f);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t c = 0; c < padded; ++c) {
      block[c * kKeyBlock + j] = rows[j * padded + c];
    }
  }
}

#else  // vectors

// 4 x 4 pieces through 128-bit registers, which every target has.
void PackBlockImpl(const float* HWY_RESTRICT rows, int64_t count,
                   int64_t padded, float* HWY_RESTRICT block) {
  for (int64_t c = 0; count < kKeyBlock && c < padded; ++c) {
    std::fill(block + c * kKeyBlock + count, block + (c + 1) * kKeyBlock, 0.0f);
  }
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> dd;
  const auto pair = [&](auto a) { return hn::BitCast(dd, a); };
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) {
    const float* row = rows + j * padded;
    for (int64_t c = 0; c < padded; c += 4) {
      const auto r0 = hn::LoadU(d, row + c);
      const auto r1 = hn::LoadU(d, row + padded + c);
      const auto r2 = hn::LoadU(d, row + 2 * padded + c);
      const auto r3 = hn::LoadU(d, row + 3 * padded + c);
      const auto lo01 = hn::InterleaveLower(d, r0, r1);
      const auto lo23 = hn::InterleaveLower(d, r2, r3);
      const auto hi01 = hn::InterleaveUpper(d, r0, r1);
      const auto hi23 = hn::InterleaveUpper(d, r2, r3);
      float* out = block + c * kKeyBlock + j;
      hn::StoreU(
          hn::BitCast(d, hn::InterleaveLower(dd, pair(lo01), pair(lo23))), d,
          out);
      hn::StoreU(
          hn::BitCast(d, hn::InterleaveUpper(dd, pair(lo01), pair(lo23))), d,
          out + kKeyBlock);
      hn::StoreU(
          hn::BitCast(d, hn::InterleaveLower(dd, pair(hi01), pair(hi23))), d,
          out + 2 * kKeyBlock);
      hn::StoreU(
          hn::BitCast(d, hn::InterleaveUpper(dd, pair(hi01), pair(hi23))), d,
          out + 3 * kKeyBlock);
    }
  }
  for (; j < count; ++j) {
    for (int64_t c = 0; c < padded; ++c) {
      block[c * kKeyBlock + j] = rows[j * padded + c];
    }
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

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

HWY_EXPORT(PackBlockImpl);
HWY_EXPORT(PackBf16Impl);

uint16_t* HalfBuffer::Reserve(int64_t count) {
  return reinterpret_cast<uint16_t*>(floats_.Reserve((count + 1) / 2));
}

void PackBlock(const float* rows, int64_t count, int64_t padded, float* block) {
  HWY_DYNAMIC_DISPATCH(PackBlockImpl)(rows, count, padded, block);
}

void PackBf16(const float* rows, int64_t stride, int64_t depth, int64_t columns,
              uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(PackBf16Impl)(rows, stride, depth, columns, out);
  const int64_t written = (depth + 1) / 2 * 2 * kKeyBlock;
  std::fill(out + written, out + Bf16Depth(depth) * kKeyBlock, uint16_t{0});
}

}  // namespace attnd
#endif  // HWY_ONCE
