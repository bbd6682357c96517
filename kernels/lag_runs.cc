#include "kernels/lag_runs.h"

#include <algorithm>
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

// row[begin, end) += value.
HWY_INLINE void AddConstant(float value, int64_t begin, int64_t end,
                            float* HWY_RESTRICT row) {
  const hn::CappedTag<float, 16> d;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, value);
  int64_t c = begin;
  for (; c + n <= end; c += n) {
    hn::StoreU(hn::Add(hn::LoadU(d, row + c), by), d, row + c);
  }
#if HWY_MEM_OPS_MIGHT_FAULT
  for (; c < end; ++c) row[c] += value;
#else
  if (c < end) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(end - c));
    hn::BlendedStore(hn::Add(hn::MaskedLoad(mask, d, row + c), by), mask, d,
                     row + c);
  }
#endif
}

void AddStepsImpl(const LagTile& tile, const LagPart& part, const float* values,
                  int64_t stride, float* logits) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    int64_t c = tile.Begin(r);
    for (int32_t run = part.first_run[r]; run < part.first_run[r + 1]; ++run) {
      const LagRun& piece = part.runs[run];
      AddConstant(values[piece.segment], c, piece.end, logits + r * stride);
      c = piece.end;
    }
  }
}

template <typename T>
void AddLinesOf(const LagTile& tile, const LagPart& part, const T* query,
                const T* key, const LagLine* lines, int64_t stride,
                float* logits) {
  const Real d;
  for (int64_t r = 0; r < tile.rows; ++r) {
    int64_t c = tile.Begin(r);
    for (int32_t run = part.first_run[r]; run < part.first_run[r + 1]; ++run) {
      const LagLine& line = lines[part.runs[run].segment];
      const auto value = hn::Set(d, line.value);
      const auto slope = hn::Set(d, line.slope);
      const auto anchor = hn::Set(d, line.anchor);
      MapLags<true>(query[r], key, c, part.runs[run].end, logits + r * stride,
                    [&](RealVector lag) HWY_ATTR {
                      return hn::MulAdd(slope, hn::Sub(lag, anchor), value);
                    });
      c = part.runs[run].end;
    }
  }
}

void AddLinesImpl(const LagTile& tile, const LagPart& part,
                  const LagLine* lines, int64_t stride, float* logits) {
  const ItemGeometry& item = *tile.item;
  if (item.exact) {
    AddLinesOf(tile, part, item.query_ticks.data() + tile.first,
               item.key_ticks.data() + tile.key, lines, stride, logits);
  } else {
    AddLinesOf(tile, part, item.query_real.data() + tile.first,
               item.key_real.data() + tile.key, lines, stride, logits);
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

template <typename T>
int CountUpTo(absl::Span<const T> borders, T lag) {
  return static_cast<int>(
      std::upper_bound(borders.begin(), borders.end(), lag) - borders.begin());
}

// Segment of `lag`, which lies below segment `above`.
template <typename T>
int SegmentBelow(absl::Span<const T> borders, int above, T lag) {
  if (above < 2 || lag >= borders[above - 2]) return above - 1;
  return CountUpTo(borders.subspan(0, above - 2), lag);
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
               absl::Span<const T> borders, LagPart* part) {
  if (begin >= end) return;
  int segment = CountUpTo(borders, query - keys[begin]);
  for (int32_t c = begin; c < end;) {
    if (segment == 0) {
      part->runs.push_back({end, 0});
      return;
    }
    int32_t& crossing = part->crossing[segment - 1];
    crossing = Crossing(query, keys, borders[segment - 1], crossing);
    part->runs.push_back({std::min(crossing, end), segment});
    c = crossing;
    if (c < end) segment = SegmentBelow(borders, segment, query - keys[c]);
  }
}

template <typename T>
void FindRunsOf(const LagTile& tile, const std::vector<T>& query,
                const std::vector<T>& key, absl::Span<const T> borders,
                LagPart* part) {
  part->runs.clear();
  part->first_run.assign(tile.rows + 1, 0);
  part->crossing.assign(borders.size(), -1);
  const int64_t keys =
      std::min<int64_t>(tile.keys, static_cast<int64_t>(key.size()) - tile.key);
  for (int64_t r = 0; r < tile.rows; ++r) {
    RunsOfRow(query[tile.first + r],
              absl::MakeConstSpan(key.data() + tile.key, keys),
              static_cast<int32_t>(tile.Begin(r)),
              static_cast<int32_t>(tile.End(r)), borders, part);
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

void FindRuns(const LagTile& tile, const LagBorders& borders, LagPart* part) {
  const ItemGeometry& item = *tile.item;
  if (item.exact) {
    FindRunsOf(tile, item.query_ticks, item.key_ticks,
               absl::MakeConstSpan(borders.ticks), part);
  } else {
    FindRunsOf(tile, item.query_real, item.key_real,
               absl::MakeConstSpan(borders.real), part);
  }
}

void AddSteps(const LagTile& tile, const LagPart& part, const float* values,
              int64_t stride, float* logits) {
  HWY_DYNAMIC_DISPATCH(AddStepsImpl)(tile, part, values, stride, logits);
}

void AddLines(const LagTile& tile, const LagPart& part, const LagLine* lines,
              int64_t stride, float* logits) {
  HWY_DYNAMIC_DISPATCH(AddLinesImpl)(tile, part, lines, stride, logits);
}

}  // namespace attnd
#endif  // HWY_ONCE
