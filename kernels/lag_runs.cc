#include "kernels/lag_runs.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "absl/types/span.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lag_runs.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/lag-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

// out[begin, end) = value; up to a vector past the end is overwritten as well,
// so that short runs cost one store.
HWY_INLINE void Fill(float value, int64_t begin, int64_t end,
                     float* HWY_RESTRICT out) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, value);
  for (int64_t c = begin; c < end; c += n) hn::StoreU(by, d, out + c);
}

void AddStepsImpl(const LagRectangle& tile, const LagPart& part,
                  const float* values, int64_t stride, float* logits) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  HWY_ALIGN float biases[kMaxRowKeys + 16];
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t begin = tile.Begin(r), end = tile.End(r);
    int64_t c = begin;
    for (int32_t run = part.first_run[r]; run < part.first_run[r + 1]; ++run) {
      const LagRun& piece = part.runs[run];
      Fill(values[piece.segment], c, piece.end, biases);
      c = piece.end;
    }
    for (c = begin; c < end; c += n) {
      AddLanes(hn::LoadU(d, biases + c), c, end, logits + r * stride);
    }
  }
}

void AddLinesImpl(const LagRectangle& tile, const LagPart& part,
                  const LagLine* lines, int64_t stride, float* logits) {
  const Lane d;
  const int64_t n = hn::Lanes(d), width = PlaneStride(tile.keys);
  HWY_ALIGN float values[kMaxRowKeys + 16];
  HWY_ALIGN float rises[kMaxRowKeys + 16];
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t begin = tile.Begin(r), end = tile.End(r);
    int64_t c = begin;
    for (int32_t run = part.first_run[r]; run < part.first_run[r + 1]; ++run) {
      const LagRun& piece = part.runs[run];
      Fill(lines[piece.segment].value, c, piece.end, values);
      Fill(lines[piece.segment].rise, c, piece.end, rises);
      c = piece.end;
    }
    const float* shares = part.plane.data() + r * width;
    PrefetchPlane(shares + kPlaneRowsAhead * width, begin, end);
    for (c = begin; c < end; c += n) {
      AddLanes(hn::MulAdd(hn::LoadU(d, rises + c), hn::LoadU(d, shares + c),
                          hn::LoadU(d, values + c)),
               c, end, logits + r * stride);
    }
  }
}

// As Fill, in double.
HWY_INLINE void FillReal(double value, int64_t begin, int64_t end,
                         double* HWY_RESTRICT out) {
  const Real d;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, value);
  for (int64_t c = begin; c < end; c += n) hn::StoreU(by, d, out + c);
}

// plane = (lag - anchor) * inverse_width of each column's segment.
template <typename T>
void SharesOf(const LagRectangle& tile, const T* query, const T* key,
              const LagKnot* knots, LagPart* part) {
  const Real d;
  const int64_t width = PlaneStride(tile.keys);
  HWY_ALIGN double anchors[kMaxRowKeys + 16];
  HWY_ALIGN double inverses[kMaxRowKeys + 16];
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t begin = tile.Begin(r), end = tile.End(r);
    int64_t c = begin;
    for (int32_t run = part->first_run[r]; run < part->first_run[r + 1];
         ++run) {
      const LagRun& piece = part->runs[run];
      FillReal(knots[piece.segment].anchor, c, piece.end, anchors);
      FillReal(knots[piece.segment].inverse_width, c, piece.end, inverses);
      c = piece.end;
    }
    MapLags<false>(query[r], key, begin, end, part->plane.data() + r * width,
                   [&](RealVector lag, int64_t at) HWY_ATTR {
                     return hn::Mul(hn::LoadU(d, inverses + at),
                                    hn::Sub(lag, hn::LoadU(d, anchors + at)));
                   });
  }
}

void SharesImpl(const LagRectangle& tile, const LagKnot* knots, LagPart* part) {
  const ItemGeometry& item = *tile.item;
  if (item.exact) {
    SharesOf(tile, item.query_ticks.data() + tile.first,
             item.key_ticks.data() + tile.key, knots, part);
  } else {
    SharesOf(tile, item.query_real.data() + tile.first,
             item.key_real.data() + tile.key, knots, part);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(AddStepsImpl);
HWY_EXPORT(AddLinesImpl);
HWY_EXPORT(SharesImpl);

template <typename T>
int CountUpTo(absl::Span<const T> borders, T lag) {
  return static_cast<int>(
      std::upper_bound(borders.begin(), borders.end(), lag) - borders.begin());
}

// Segment of `lag`, which lies below segment `above`: most often the next.
template <typename T>
int SegmentBelow(absl::Span<const T> borders, int above, T lag) {
  int high = above - 1, step = 1;  // lag < borders[high]
  while (high - step >= 0 && lag < borders[high - step]) {
    high -= step;
    step *= 2;
  }
  const int low = std::max(high - step, -1) + 1;
  return low + CountUpTo(borders.subspan(low, high - low), lag);
}

// Number of keys with query - key >= border, by a walk from the last row's.
template <typename T>
int32_t Crossing(T query, absl::Span<const T> keys, T border, int32_t last) {
  const auto reaches = [&](T key) { return query - key >= border; };
  if (last < 0) {
    return static_cast<int32_t>(
        std::partition_point(keys.begin(), keys.end(), reaches) - keys.begin());
  }
  while (last < static_cast<int32_t>(keys.size()) && reaches(keys[last])) {
    ++last;
  }
  while (last > 0 && !reaches(keys[last - 1])) --last;
  return last;
}

template <typename T>
void RunsOfRow(T query, absl::Span<const T> keys, int32_t begin, int32_t end,
               absl::Span<const T> borders, LagScratch* scratch,
               LagPart* part) {
  if (begin >= end) return;
  int segment = CountUpTo(borders, query - keys[begin]);
  for (int32_t c = begin; c < end;) {
    if (segment == 0) {
      part->runs.push_back({end, 0});
      return;
    }
    const T border = borders[segment - 1];
    if (++c < end && query - keys[c] >= border) {
      int32_t& crossing = scratch->crossing[segment - 1];
      crossing = Crossing(query, keys, border, crossing);
      c = crossing;
    }
    part->runs.push_back({std::min(c, end), segment});
    if (c < end) segment = SegmentBelow(borders, segment, query - keys[c]);
  }
}

template <typename T>
void FindRunsOf(const LagRectangle& tile, const std::vector<T>& query,
                const std::vector<T>& key, absl::Span<const T> borders,
                LagScratch* scratch, LagPart* part) {
  part->runs.clear();
  part->first_run.assign(tile.rows + 1, 0);
  scratch->crossing.assign(borders.size(), -1);
  const int64_t keys =
      std::min<int64_t>(tile.keys, static_cast<int64_t>(key.size()) - tile.key);
  for (int64_t r = 0; r < tile.rows; ++r) {
    RunsOfRow(query[tile.first + r],
              absl::MakeConstSpan(key.data() + tile.key, keys),
              static_cast<int32_t>(tile.Begin(r)),
              static_cast<int32_t>(tile.End(r)), borders, scratch, part);
    part->first_run[r + 1] = static_cast<int32_t>(part->runs.size());
  }
}

// The least integer at or above x. Borders are computed to about 1e-18: what is
// that close to an integer is one.
long double CeilTick(long double x) {
  const long double nearest = std::nearbyint(x);
  return std::fabs(x - nearest) <= 4e-18L * std::fabs(x) ? nearest
                                                         : std::ceil(x);
}

}  // namespace

int LagBorders::Segment(const LagPoint& point) const {
  return point.exact ? CountUpTo(absl::MakeConstSpan(ticks), point.ticks)
                     : CountUpTo(absl::MakeConstSpan(real), point.real);
}

void AppendBorder(long double units, int64_t unit_ns, int64_t tick_ns,
                  LagBorders* borders) {
  const long double scaled =
      units * static_cast<long double>(unit_ns) / tick_ns;
  borders->real.push_back(static_cast<double>(scaled));
  const long double tick = CeilTick(scaled);
  if (tick >= 0x1p63L) return;
  borders->ticks.push_back(tick < -0x1p63L ? std::numeric_limits<int64_t>::min()
                                           : static_cast<int64_t>(tick));
}

void MirrorBorders(LagBorders* borders) {
  // |lag| >= border below zero is lag <= -border: the next lag starts the inner
  // segment. Borders no tick can reach stand at the minimum, always passed.
  const size_t reached = borders->ticks.size(), all = borders->real.size();
  std::vector<int64_t> ticks(all - reached,
                             std::numeric_limits<int64_t>::min());
  std::vector<double> real;
  for (size_t i = reached; i-- > 0;) ticks.push_back(1 - borders->ticks[i]);
  for (size_t i = all; i-- > 0;) {
    real.push_back(std::nextafter(-borders->real[i],
                                  std::numeric_limits<double>::infinity()));
  }
  borders->ticks.insert(borders->ticks.begin(), ticks.begin(), ticks.end());
  borders->real.insert(borders->real.begin(), real.begin(), real.end());
}

void FindRuns(const LagRectangle& tile, const LagBorders& borders,
              LagScratch* scratch, LagPart* part) {
  const ItemGeometry& item = *tile.item;
  if (item.exact) {
    FindRunsOf(tile, item.query_ticks, item.key_ticks,
               absl::MakeConstSpan(borders.ticks), scratch, part);
  } else {
    FindRunsOf(tile, item.query_real, item.key_real,
               absl::MakeConstSpan(borders.real), scratch, part);
  }
}

void FindShares(const LagRectangle& tile, const LagKnot* knots, LagPart* part) {
  part->plane.Reserve(tile.rows * PlaneStride(tile.keys) + kPlaneSlack);
  HWY_DYNAMIC_DISPATCH(SharesImpl)(tile, knots, part);
}

void AddSteps(const LagRectangle& tile, const LagPart& part,
              const float* values, int64_t stride, float* logits) {
  assert(tile.keys <= kMaxRowKeys);
  HWY_DYNAMIC_DISPATCH(AddStepsImpl)(tile, part, values, stride, logits);
}

void AddLines(const LagRectangle& tile, const LagPart& part,
              const LagLine* lines, int64_t stride, float* logits) {
  assert(tile.keys <= kMaxRowKeys);
  HWY_DYNAMIC_DISPATCH(AddLinesImpl)(tile, part, lines, stride, logits);
}

}  // namespace attnd
#endif  // HWY_ONCE
