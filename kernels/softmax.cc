#include "kernels/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/bf16-inl.h"
#include "kernels/exp-inl.h"
#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

using Lane = hn::CappedTag<float, kSumLanes / 2>;
using Vector = hn::Vec<Lane>;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// The first min(count, lanes) elements at p of a row that goes on until
// `limit`, the others anything. Masked loads wait for what was just stored;
// whole ones do not.
HWY_INLINE Vector LoadWithin(Lane d, const float* p, int64_t count,
                             int64_t limit) {
  return limit >= static_cast<int64_t>(hn::Lanes(d)) ? hn::LoadU(d, p)
                                                     : LoadFirst(d, p, count);
}

// logit + column bias.
template <bool kBias>
HWY_INLINE Vector Logit(Lane d, const float* row, const float* column_bias,
                        int64_t c) {
  const Vector s = hn::LoadU(d, row + c);
  if constexpr (kBias) return hn::Add(s, hn::LoadU(d, column_bias + c));
  return s;
}

// Relative to the row's reference: the row bias is added before it, not folded
// into it, so that what a large logit loses is lost from the maximum alike, and
// from what RecordLogits (query_tile.cc) writes down.
template <bool kBias>
HWY_INLINE Vector Relative(Lane, Vector logit, Vector row_bias,
                           Vector reference) {
  if constexpr (kBias) logit = hn::Add(logit, row_bias);
  return hn::Sub(logit, reference);
}

// Largest logit of columns [begin, end); NaN may be ignored: its exp is NaN and
// marks the row later.
template <bool kBias>
HWY_INLINE float RowMax(const float* HWY_RESTRICT row,
                        const float* HWY_RESTRICT column_bias, int64_t begin,
                        int64_t end, int64_t limit) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const Vector low = hn::Set(d, kMinusInfinity);
  Vector m0 = low, m1 = low, m2 = low, m3 = low;
  int64_t c = begin;
  for (; c + 4 * n <= end; c += 4 * n) {
    m0 = hn::Max(Logit<kBias>(d, row, column_bias, c), m0);
    m1 = hn::Max(Logit<kBias>(d, row, column_bias, c + n), m1);
    m2 = hn::Max(Logit<kBias>(d, row, column_bias, c + 2 * n), m2);
    m3 = hn::Max(Logit<kBias>(d, row, column_bias, c + 3 * n), m3);
  }
  for (; c + n <= end; c += n) {
    m0 = hn::Max(Logit<kBias>(d, row, column_bias, c), m0);
  }
  if (c < end) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(end - c));
    Vector tail = LoadWithin(d, row + c, end - c, limit - c);
    if constexpr (kBias) {
      tail = hn::Add(tail, LoadWithin(d, column_bias + c, end - c, limit - c));
    }
    m1 = hn::Max(hn::IfThenElse(mask, tail, low), m1);
  }
  m0 = hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
  return hn::GetLane(hn::MaxOfLanes(d, m0));
}

// Where the exponentials of a row go: over its logits, or rounded to bf16.
struct FloatRow {
  float* to;

  HWY_INLINE void Store(Lane d, Vector p, int64_t c) const {
    hn::StoreU(p, d, to + c);
  }
  HWY_INLINE void StoreSome(Lane d, Vector p, int64_t c, int64_t count) const {
    StoreFirst(p, d, to + c, count);
  }
};

struct HalfRow {
  uint16_t* HWY_RESTRICT to;

  // A NaN may become another number: the sum of its row is NaN as well.
  HWY_INLINE void Store(Lane d, Vector p, int64_t c) const {
    const hn::Rebind<int32_t, Lane> di32;
    const hn::Rebind<uint16_t, Lane> d16;
    const auto rounded = Bf16BitsOfNumbers(d, p);
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, rounded)), d16, to + c);
  }
  HWY_INLINE void StoreSome(Lane d, Vector p, int64_t c, int64_t count) const {
    if (count >= static_cast<int64_t>(hn::Lanes(d))) return Store(d, p, c);
    HWY_ALIGN uint16_t some[kSumLanes];
    HalfRow{some}.Store(d, p, 0);
    std::copy_n(some, count, to + c);
  }
};

// Zeros on [begin, end).
template <class Row>
HWY_INLINE void ZeroColumns(Row row, int64_t begin, int64_t end) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  int64_t c = begin;
  for (; c + n <= end; c += n) row.Store(d, hn::Zero(d), c);
  if (c < end) row.StoreSome(d, hn::Zero(d), c, end - c);
}

// exp(x) x, 0 where exp(x) is.
HWY_INLINE Vector Moment(Lane d, Vector p, Vector x) {
  return hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d)), hn::Mul(p, x));
}

// sums += part in its first lanes; the lanes from kSumLanes / 2 on take what is
// rounded off (Knuth's two-sum).
HWY_INLINE void AddExactly(Lane d, Vector part, float* HWY_RESTRICT sums) {
  float* lost = sums + kSumLanes / 2;
  const Vector before = hn::Load(d, sums), total = hn::Add(before, part);
  const Vector added = hn::Sub(total, before);
  const Vector rest =
      hn::Add(hn::Sub(before, hn::Sub(total, added)), hn::Sub(part, added));
  hn::Store(total, d, sums);
  hn::Store(hn::Add(hn::Load(d, lost), rest), d, lost);
}

// out := exp(row + column_bias + row_bias - reference) on [begin, end), 0 on
// [end, limit); adds to the sum lanes. What these columns give is summed on its
// own first, and what that addition loses is kept: thousands of equal
// exponentials added one by one to a large sum would all be rounded the same
// way.
template <bool kBias, bool kMoments, class Row>
HWY_INLINE void RowExp(const float* row, const float* HWY_RESTRICT column_bias,
                       Row out, int64_t begin, int64_t end, int64_t limit,
                       float row_bias, float reference,
                       float* HWY_RESTRICT sums, float* HWY_RESTRICT moments) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const Vector bias = hn::Set(d, row_bias), from = hn::Set(d, reference);
  const auto relative = [&](Vector logit) HWY_ATTR {
    return Relative<kBias>(d, logit, bias, from);
  };
  Vector s0 = hn::Zero(d), s1 = hn::Zero(d);
  Vector moment = hn::Zero(d);
  int64_t c = begin;
  for (; c + 2 * n <= end; c += 2 * n) {
    const Vector x0 = relative(Logit<kBias>(d, row, column_bias, c));
    const Vector x1 = relative(Logit<kBias>(d, row, column_bias, c + n));
    const Vector p0 = Exp(d, x0), p1 = Exp(d, x1);
    if constexpr (kMoments) {
      moment = hn::Add(moment, hn::Add(Moment(d, p0, x0), Moment(d, p1, x1)));
    }
    out.Store(d, p0, c);
    out.Store(d, p1, c + n);
    s0 = hn::Add(s0, p0);
    s1 = hn::Add(s1, p1);
  }
  for (; c < end; c += n) {
    const auto mask =
        hn::FirstN(d, static_cast<size_t>(std::min<int64_t>(n, end - c)));
    Vector x = LoadWithin(d, row + c, end - c, limit - c);
    if constexpr (kBias) {
      x = hn::Add(x, LoadWithin(d, column_bias + c, end - c, limit - c));
    }
    x = relative(x);
    const Vector p = hn::IfThenElseZero(mask, Exp(d, x));
    if constexpr (kMoments) moment = hn::Add(moment, Moment(d, p, x));
    out.StoreSome(d, p, c, limit - c);
    s1 = hn::Add(s1, p);
  }
  ZeroColumns(out, std::min(c, limit), limit);
  AddExactly(d, hn::Add(s0, s1), sums);
  if constexpr (kMoments) {
    hn::Store(hn::Add(hn::Load(d, moments), moment), d, moments);
  }
}

HWY_INLINE float SumOfAll(const float* HWY_RESTRICT lanes) {
  const Lane d;
  Vector sum = hn::Load(d, lanes);
  for (size_t l = hn::Lanes(d); l < kSumLanes; l += hn::Lanes(d)) {
    sum = hn::Add(sum, hn::Load(d, lanes + l));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE float ScalarExp(float x) {
  const Lane d;
  return hn::GetLane(Exp(d, hn::Set(d, x)));
}

// Raises the reference of a row's sums, and of its moments if any, to `high`.
HWY_INLINE float Raise(float high, float* max, float* sums, float* moments) {
  float factor = 1;
  if (*max != kMinusInfinity) {
    const float step = *max - high;
    factor = ScalarExp(step);
    for (int l = 0; l < kSumLanes; ++l) {
      if (moments != nullptr) {
        moments[l] = factor == 0 ? 0 : factor * (moments[l] + step * sums[l]);
      }
      sums[l] *= factor;
    }
  }
  *max = high;
  return factor;
}

template <bool kBias, bool kMoments, class Row>
bool UpdateRows(const SoftmaxTile& tile, Row first) {
  bool any = false;
  const int64_t columns = tile.columns > 0 ? tile.columns : tile.stride;
  for (int r = 0; r < tile.rows; ++r) {
    const float* row = tile.logits + static_cast<int64_t>(r) * tile.stride;
    const int64_t begin = tile.begin ? tile.begin[r] : 0;
    const int64_t end = tile.end ? tile.end[r] : columns;
    const Row out{first.to + static_cast<int64_t>(r) * tile.stride};
    tile.rescale[r] = 1;
    if (begin >= end) {
      ZeroColumns(out, 0, columns);
      continue;
    }
    ZeroColumns(out, 0, begin);
    const float row_bias = kBias ? tile.row_bias[r] : 0.0f;
    const float high =
        RowMax<kBias>(row, tile.column_bias, begin, end, columns) + row_bias;
    float* sums = tile.sums + r * kSumLanes;
    float& max = tile.max[r];
    float* moments = kMoments ? tile.moments + r * kSumLanes : nullptr;
    if (high > max + kRescaleStep) {
      any |= max != kMinusInfinity;
      tile.rescale[r] = Raise(high, &max, sums, moments);
    }
    // All visible logits are -inf so far: any finite reference gives zeros.
    const float reference = max == kMinusInfinity ? 0.0f : max;
    RowExp<kBias, kMoments>(row, tile.column_bias, out, begin, end, columns,
                            row_bias, reference, sums, moments);
  }
  return any;
}

template <class Row>
bool UpdateAll(const SoftmaxTile& tile, Row first) {
  const bool bias = tile.column_bias != nullptr;
  if (tile.moments != nullptr) {
    return bias ? UpdateRows<true, true>(tile, first)
                : UpdateRows<false, true>(tile, first);
  }
  return bias ? UpdateRows<true, false>(tile, first)
              : UpdateRows<false, false>(tile, first);
}

bool UpdateSoftmaxImpl(const SoftmaxTile& tile) {
  return tile.halves != nullptr ? UpdateAll(tile, HalfRow{tile.halves})
                                : UpdateAll(tile, FloatRow{tile.logits});
}

float AddSinkImpl(float logit, float* max, float* sums, float* moments) {
  float factor = 1;
  if (logit > *max) {
    const bool first = *max == kMinusInfinity;
    factor = Raise(logit, max, sums, moments);
    if (first) factor = 0;
  }
  if (logit != kMinusInfinity) sums[0] += ScalarExp(logit - *max);
  return factor;
}

template <bool kBias>
void AddRowWeights(const SoftmaxTile& tile, const float* share,
                   float* HWY_RESTRICT sums) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const Vector low = hn::Set(d, kMinusInfinity);
  for (int r = 0; r < tile.rows; ++r) {
    const float* row = tile.logits + static_cast<int64_t>(r) * tile.stride;
    const int64_t begin = tile.begin ? tile.begin[r] : 0;
    const int64_t end = tile.end ? tile.end[r] : tile.stride;
    const float row_bias = kBias ? tile.row_bias[r] : 0.0f;
    const float max = tile.max[r] == kMinusInfinity ? 0.0f : tile.max[r];
    const Vector bias = hn::Set(d, row_bias), from = hn::Set(d, max);
    const Vector part = hn::Set(d, share[r]);
    for (int64_t c = begin; c < end; c += n) {
      Vector x = LoadFirst(d, row + c, end - c);
      if constexpr (kBias) {
        x = hn::Add(x, LoadFirst(d, tile.column_bias + c, end - c));
      }
      const Vector weight = hn::IfThenZeroElse(
          hn::Eq(x, low),
          hn::Mul(Exp(d, Relative<kBias>(d, x, bias, from)), part));
      const Vector sum = LoadFirst(d, sums + c, end - c);
      StoreFirst(hn::Add(sum, weight), d, sums + c, end - c);
    }
  }
}

void AddWeightsImpl(const SoftmaxTile& tile, const float* share, float* sums) {
  tile.column_bias != nullptr ? AddRowWeights<true>(tile, share, sums)
                              : AddRowWeights<false>(tile, share, sums);
}

float SumLanesImpl(const float* lanes) { return SumOfAll(lanes); }

void ScaleRowsImpl(float* HWY_RESTRICT values, int rows, int64_t dim,
                   const float* factor) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  for (int r = 0; r < rows; ++r) {
    if (factor[r] == 1) continue;
    float* row = values + r * dim;
    const Vector by = hn::Set(d, factor[r]);
    int64_t c = 0;
    for (; c + n <= dim; c += n) {
      hn::StoreU(hn::Mul(hn::LoadU(d, row + c), by), d, row + c);
    }
    for (; c < dim; ++c) row[c] *= factor[r];
  }
}

HWY_INLINE float Normalise(const float* HWY_RESTRICT values, int64_t dim,
                           const float* HWY_RESTRICT sums,
                           float* HWY_RESTRICT out) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const float sum = SumOfAll(sums);
  if (sum == 0) {
    std::fill(out, out + dim, 0.0f);
    return sum;
  }
  const float inverse = 1 / sum;
  const Vector by = hn::Set(d, inverse);
  int64_t c = 0;
  for (; c + n <= dim; c += n) {
    hn::StoreU(hn::Mul(hn::LoadU(d, values + c), by), d, out + c);
  }
  for (; c < dim; ++c) out[c] = values[c] * inverse;
  return sum;
}

float NormaliseRowImpl(const float* values, int64_t dim, const float* sums,
                       float* out) {
  return Normalise(values, dim, sums, out);
}

bool NormaliseRowsImpl(const float* values, int rows, int64_t value_stride,
                       int64_t dim, const float* sums, float* out,
                       int64_t stride) {
  bool all = true;
  for (int r = 0; r < rows; ++r) {
    const float sum = Normalise(values + r * value_stride, dim,
                                sums + r * kSumLanes, out + r * stride);
    all = all && sum > 0;
  }
  return all;
}

void WeightsFromLogitsImpl(const float* logits, int64_t count, float max,
                           float sum, float* weights) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const Vector by = hn::Set(d, max == kMinusInfinity ? 0.0f : max);
  const Vector share = hn::Set(d, 1 / sum);
  const Vector low = hn::Set(d, kMinusInfinity);
  for (int64_t c = 0; c < count; c += n) {
    const Vector s = LoadFirst(d, logits + c, count - c);
    // Also when the sum is 0 or NaN, a hidden key weighs nothing.
    const Vector w = hn::Mul(Exp(d, hn::Sub(s, by)), share);
    StoreFirst(hn::IfThenZeroElse(hn::Eq(s, low), w), d, weights + c,
               count - c);
  }
}

const char* VectorTargetImpl() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(UpdateSoftmaxImpl);
HWY_EXPORT(AddSinkImpl);
HWY_EXPORT(AddWeightsImpl);
HWY_EXPORT(SumLanesImpl);
HWY_EXPORT(ScaleRowsImpl);
HWY_EXPORT(NormaliseRowImpl);
HWY_EXPORT(NormaliseRowsImpl);
HWY_EXPORT(WeightsFromLogitsImpl);
HWY_EXPORT(VectorTargetImpl);

bool UpdateSoftmax(const SoftmaxTile& tile) {
  return HWY_DYNAMIC_DISPATCH(UpdateSoftmaxImpl)(tile);
}
float AddSink(float logit, float* max, float* sums, float* moments) {
  return HWY_DYNAMIC_DISPATCH(AddSinkImpl)(logit, max, sums, moments);
}
void AddWeights(const SoftmaxTile& tile, const float* share, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddWeightsImpl)(tile, share, sums);
}
float SumLanes(const float* lanes) {
  return HWY_DYNAMIC_DISPATCH(SumLanesImpl)(lanes);
}
void ScaleRows(float* values, int rows, int64_t dim, const float* factor) {
  HWY_DYNAMIC_DISPATCH(ScaleRowsImpl)(values, rows, dim, factor);
}
bool NormaliseRows(const float* values, int rows, int64_t value_stride,
                   int64_t dim, const float* sums, float* out, int64_t stride) {
  return HWY_DYNAMIC_DISPATCH(NormaliseRowsImpl)(values, rows, value_stride,
                                                 dim, sums, out, stride);
}
float NormaliseRow(const float* values, int64_t dim, const float* sums,
                   float* out) {
  return HWY_DYNAMIC_DISPATCH(NormaliseRowImpl)(values, dim, sums, out);
}
void WeightsFromLogits(const float* logits, int64_t count, float max, float sum,
                       float* weights) {
  HWY_DYNAMIC_DISPATCH(WeightsFromLogitsImpl)(logits, count, max, sum, weights);
}
const char* VectorTarget() { return HWY_DYNAMIC_DISPATCH(VectorTargetImpl)(); }

}  // namespace attnd
#endif  // HWY_ONCE
