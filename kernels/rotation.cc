#include "kernels/rotation.h"

#include <algorithm>
#include <limits>

#include "kernels/small_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotation.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/finite-inl.h"
#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Lane = hn::CappedTag<float, 16>;

constexpr int64_t kLineFloats = 16;

// y0 = x0 cos - x1 sin, y1 = x0 sin + x1 cos over a run of planes.
HWY_INLINE void RotateHalfSplit(const float* HWY_RESTRICT cosine,
                                const float* HWY_RESTRICT sine, int planes,
                                int distance, float* HWY_RESTRICT x) {
  const Lane d;
  const int n = static_cast<int>(hn::Lanes(d));
  int p = 0;
  for (; p + n <= planes; p += n) {
    const auto c = hn::LoadU(d, cosine + p), s = hn::LoadU(d, sine + p);
    const auto x0 = hn::LoadU(d, x + p), x1 = hn::LoadU(d, x + p + distance);
    hn::StoreU(hn::NegMulAdd(x1, s, hn::Mul(x0, c)), d, x + p);
    hn::StoreU(hn::MulAdd(x0, s, hn::Mul(x1, c)), d, x + p + distance);
  }
  for (; p < planes; ++p) {
    const float x0 = x[p], x1 = x[p + distance];
    x[p] = x0 * cosine[p] - x1 * sine[p];
    x[p + distance] = x0 * sine[p] + x1 * cosine[p];
  }
}

HWY_INLINE void RotateInterleaved(const float* HWY_RESTRICT cosine,
                                  const float* HWY_RESTRICT sine, int planes,
                                  float* HWY_RESTRICT x) {
  const Lane d;
  const int n = static_cast<int>(hn::Lanes(d));
  int p = 0;
  for (; p + n <= planes; p += n) {
    const auto c = hn::LoadU(d, cosine + p), s = hn::LoadU(d, sine + p);
    hn::Vec<Lane> x0, x1;
    hn::LoadInterleaved2(d, x + 2 * p, x0, x1);
    hn::StoreInterleaved2(hn::NegMulAdd(x1, s, hn::Mul(x0, c)),
                          hn::MulAdd(x0, s, hn::Mul(x1, c)), d, x + 2 * p);
  }
  for (; p < planes; ++p) {
    const float x0 = x[2 * p], x1 = x[2 * p + 1];
    x[2 * p] = x0 * cosine[p] - x1 * sine[p];
    x[2 * p + 1] = x0 * sine[p] + x1 * cosine[p];
  }
}

// out = row B, B row-major [dim, dim].
HWY_INLINE void ChangeBasis(const float* HWY_RESTRICT basis,
                            const float* HWY_RESTRICT row, int64_t dim,
                            float* HWY_RESTRICT out) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  for (int64_t c = 0; c < dim; c += n) {
    const int64_t left = dim - c;
    auto even = hn::Zero(d), odd = hn::Zero(d);
    int64_t i = 0;
    for (; i + 2 <= dim; i += 2) {
      const float* b = basis + i * dim + c;
      even = hn::MulAdd(hn::Set(d, row[i]), LoadFirst(d, b, left), even);
      odd =
          hn::MulAdd(hn::Set(d, row[i + 1]), LoadFirst(d, b + dim, left), odd);
    }
    if (i < dim) {
      even = hn::MulAdd(hn::Set(d, row[i]),
                        LoadFirst(d, basis + i * dim + c, left), even);
    }
    StoreFirst(hn::Add(even, odd), d, out + c, left);
  }
}

// dst = scale * src, turned; all NaN if a source or `check` is not finite.
HWY_INLINE void TurnInOrder(const HeadEncoder* head, const float* phases,
                            float scale, const float* src, int64_t dim,
                            int64_t padded, hn::Vec<Lane> check, float* dst) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, scale);
  for (int64_t c = 0; c < padded; c += n) {
    auto x = hn::Zero(d);
    if (c + n <= dim) {
      x = hn::LoadU(d, src + c);
    } else if (c < dim) {
      x = LoadFirst(d, src + c, dim - c);
    }
    // 0 * x is NaN exactly for non-finite x.
    check = hn::MulAdd(x, hn::Zero(d), check);
    hn::StoreU(hn::Mul(x, by), d, dst + c);
  }
  if (!hn::AllTrue(d, hn::Eq(check, hn::Zero(d)))) {
    std::fill(dst, dst + padded, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  if (head == nullptr) return;
  for (size_t p = 0; p < head->scale().size(); ++p) dst[p] *= head->scale()[p];
  if (phases == nullptr) return;
  for (const HeadEncoder::PlaneGroup& group : head->plane_groups()) {
    const float* c = phases + group.table_offset;
    const float* s = c + head->table_size();
    float* x = dst + group.first;
    if (group.layout == PairLayout::kHalfSplit) {
      RotateHalfSplit(c, s, group.planes, group.distance, x);
    } else {
      RotateInterleaved(c, s, group.planes, x);
    }
  }
  HWY_ALIGN float turned[kMaxFreeTurn];
  for (const FreeTurn& turn : head->free_turns()) {
    ChangeBasis(phases + 2 * head->table_size() + turn.offset, dst + turn.first,
                turn.size, turned);
    std::copy(turned, turned + turn.size, dst + turn.first);
  }
}

void EncodeRowImpl(const HeadEncoder* head, bool query, const float* phases,
                   float scale, const float* src, int64_t dim, int64_t padded,
                   float* scratch, float* dst) {
  const Lane d;
  auto check = hn::Zero(d);
  if (head != nullptr) {
    scale *= head->common_scale();
    const std::vector<float>* basis =
        query ? &head->query_basis() : &head->key_basis();
    if (!basis->empty()) {
      // A basis could turn infinities into a finite number.
      if (!AllFinite(src, dim)) check = hn::Set(d, 1.0f);
      ChangeBasis(basis->data(), src, dim, scratch);
      src = scratch;
    } else if (!head->order().empty()) {
      for (int64_t p = 0; p < dim; ++p) scratch[p] = src[head->order()[p]];
      src = scratch;
    }
  }
  TurnInOrder(head, phases, scale, src, dim, padded, check, dst);
}

void EncodePlainRowsImpl(const float* HWY_RESTRICT src, int64_t rows,
                         int64_t dim, int64_t padded, float scale,
                         float* HWY_RESTRICT dst) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, scale);
  for (int64_t r = 0; r < rows; ++r, src += dim, dst += padded) {
    auto check = hn::Zero(d);
    for (int64_t c = 0; c < padded; c += n) {
      auto x = hn::Zero(d);
      if (c + n <= dim) {
        x = hn::LoadU(d, src + c);
      } else if (c < dim) {
        x = LoadFirst(d, src + c, dim - c);
      }
      check = hn::MulAdd(x, hn::Zero(d), check);
      hn::StoreU(hn::Mul(x, by), d, dst + c);
    }
    if (!hn::AllTrue(d, hn::Eq(check, hn::Zero(d)))) {
      std::fill(dst, dst + padded, std::numeric_limits<float>::quiet_NaN());
    }
  }
}

// A row that turns its first 2 * planes channels in halves.
HWY_INLINE void TurnHalves(const RowBatch& batch, float scale, int planes,
                           const float* HWY_RESTRICT src,
                           const float* HWY_RESTRICT cosine,
                           float* HWY_RESTRICT dst) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const float* HWY_RESTRICT sine = cosine + batch.head->table_size();
  const auto by = hn::Set(d, scale);
  auto check = hn::Zero(d);
  int64_t p = 0;
  for (; p + n <= planes; p += n) {
    const auto x0 = hn::LoadU(d, src + p);
    const auto x1 = hn::LoadU(d, src + p + planes);
    check = hn::MulAdd(x0, hn::Zero(d), hn::MulAdd(x1, hn::Zero(d), check));
    const auto c = hn::Mul(hn::LoadU(d, cosine + p), by);
    const auto s = hn::Mul(hn::LoadU(d, sine + p), by);
    hn::StoreU(hn::NegMulAdd(x1, s, hn::Mul(x0, c)), d, dst + p);
    hn::StoreU(hn::MulAdd(x0, s, hn::Mul(x1, c)), d, dst + p + planes);
  }
  float rest = 0;
  for (; p < planes; ++p) {
    const float x0 = src[p], x1 = src[p + planes];
    const float c = cosine[p] * scale, s = sine[p] * scale;
    rest += 0 * x0 + 0 * x1;
    dst[p] = x0 * c - x1 * s;
    dst[p + planes] = x0 * s + x1 * c;
  }
  for (int64_t i = 2 * planes; i < batch.dim; ++i) {
    rest += 0 * src[i];
    dst[i] = src[i] * scale;
  }
  std::fill(dst + batch.dim, dst + batch.padded, 0.0f);
  if (rest != 0 || !hn::AllTrue(d, hn::Eq(check, hn::Zero(d)))) {
    std::fill(dst, dst + batch.padded, std::numeric_limits<float>::quiet_NaN());
  }
}

HWY_INLINE const float* PhasesOf(const RowBatch& batch, int64_t row) {
  return batch.phases == nullptr
             ? nullptr
             : batch.phases + int64_t{batch.head->phase_floats()} * row;
}

// Rows in another basis: one product for all of them.
HWY_INLINE void EncodeInBasis(const RowBatch& batch,
                              const std::vector<float>& basis) {
  const Lane d;
  Multiply({.a = batch.src,
            .a_stride = batch.stride,
            .b = basis.data(),
            .b_stride = batch.dim,
            .c = batch.scratch,
            .c_stride = batch.padded,
            .rows = batch.rows,
            .depth = batch.dim,
            .columns = batch.dim,
            .exact = true});
  for (int64_t r = 0; r < batch.rows; ++r) {
    const bool finite = AllFinite(batch.src + r * batch.stride, batch.dim);
    TurnInOrder(batch.head, PhasesOf(batch, r), batch.scale,
                batch.scratch + r * batch.padded, batch.dim, batch.padded,
                finite ? hn::Zero(d) : hn::Set(d, 1.0f),
                batch.dst + r * batch.padded);
  }
}

void EncodeRowsImpl(const RowBatch& batch) {
  const HeadEncoder& head = *batch.head;
  const std::vector<float>& basis =
      batch.query ? head.query_basis() : head.key_basis();
  if (!basis.empty() && batch.dim % kProductColumns == 0) {
    return EncodeInBasis(batch, basis);
  }
  const int planes = batch.phases == nullptr ? -1 : head.half_split_planes();
  const float scale = batch.scale * head.common_scale();
  for (int64_t r = 0; r < batch.rows; ++r) {
    const float* src = batch.src + r * batch.stride;
    // Also past the last row, where the next batch goes on.
    for (int64_t c = 0; c < batch.dim; c += kLineFloats) {
      hwy::Prefetch(src + kEncodedRowsAhead * batch.stride + c);
    }
    float* dst = batch.dst + r * batch.padded;
    const float* phases = PhasesOf(batch, r);
    if (planes >= 0) {
      TurnHalves(batch, scale, planes, src, phases, dst);
    } else {
      EncodeRowImpl(&head, batch.query, phases, batch.scale, src, batch.dim,
                    batch.padded, batch.scratch, dst);
    }
  }
}

bool AllFiniteImpl(const float* values, int64_t count) {
  return AllFinite(values, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(EncodeRowImpl);
HWY_EXPORT(EncodePlainRowsImpl);
HWY_EXPORT(EncodeRowsImpl);
HWY_EXPORT(AllFiniteImpl);

void EncodeRow(const HeadEncoder* head, bool query, const float* phases,
               float scale, const float* src, int64_t dim, int64_t padded,
               float* scratch, float* dst) {
  HWY_DYNAMIC_DISPATCH(EncodeRowImpl)
  (head, query, phases, scale, src, dim, padded, scratch, dst);
}
void EncodePlainRows(const float* src, int64_t rows, int64_t dim,
                     int64_t padded, float scale, float* dst) {
  HWY_DYNAMIC_DISPATCH(EncodePlainRowsImpl)
  (src, rows, dim, padded, scale, dst);
}
void EncodeRows(const RowBatch& batch) {
  HWY_DYNAMIC_DISPATCH(EncodeRowsImpl)(batch);
}
bool FiniteValues(const float* values, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteImpl)(values, count);
}

}  // namespace attnd
#endif  // HWY_ONCE
