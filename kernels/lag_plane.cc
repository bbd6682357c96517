#include "kernels/lag_plane.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lag_plane.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/lag-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

// row[begin, end) += value + slope * plane.
HWY_INLINE void AddLine(float value, float slope,
                        const float* HWY_RESTRICT plane, int64_t begin,
                        int64_t end, float* HWY_RESTRICT row) {
  const hn::CappedTag<float, 16> d;
  const int64_t n = hn::Lanes(d);
  const auto a = hn::Set(d, value), b = hn::Set(d, slope);
  int64_t c = begin;
  for (; c + n <= end; c += n) {
    const auto bias = hn::MulAdd(b, hn::LoadU(d, plane + c), a);
    hn::StoreU(hn::Add(hn::LoadU(d, row + c), bias), d, row + c);
  }
  for (; c < end; ++c) row[c] += value + slope * plane[c];
}

void AddPlaneImpl(const LagRectangle& tile, const LagPart& part, double factor,
                  int64_t stride, float* logits) {
  const int64_t width = PlaneStride(tile.keys);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* plane = part.plane.data() + r * width;
    PrefetchPlane(plane + kPlaneRowsAhead * width, tile.Begin(r), tile.End(r));
    AddLine(0, static_cast<float>(factor), plane, tile.Begin(r), tile.End(r),
            logits + r * stride);
  }
}

void AddPlaneLinesImpl(const LagRectangle& tile, const LagPart& part,
                       const double* values, const double* slopes,
                       int64_t stride, float* logits) {
  const int64_t width = PlaneStride(tile.keys);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const double by = part.row_factor[r];
    int64_t c = tile.Begin(r);
    PrefetchPlane(part.plane.data() + (r + kPlaneRowsAhead) * width, c,
                  tile.End(r));
    for (int32_t run = part.first_run[r]; run < part.first_run[r + 1]; ++run) {
      const LagRun& piece = part.runs[run];
      AddLine(static_cast<float>(values[piece.segment]),
              static_cast<float>(by * slopes[piece.segment]),
              part.plane.data() + r * width, c, piece.end, logits + r * stride);
      c = piece.end;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(AddPlaneImpl);
HWY_EXPORT(AddPlaneLinesImpl);

namespace {

// Columns [begin, end) lie on one side of the query: the plane falls along them
// if `past`, else it rises.
void SideRuns(const float* plane, int32_t begin, int32_t end, bool past,
              double factor, const std::vector<double>& knots, LagPart* part) {
  for (int32_t c = begin; c < end;) {
    const auto segment =
        std::upper_bound(knots.begin(), knots.end(), factor * plane[c]) -
        knots.begin();
    const auto same = [&](float x) {
      const double u = factor * x;
      return past ? segment == 0 || u >= knots[segment - 1]
                  : segment == static_cast<int64_t>(knots.size()) ||
                        u < knots[segment];
    };
    c = static_cast<int32_t>(
        std::partition_point(plane + c, plane + end, same) - plane);
    part->runs.push_back({c, static_cast<int32_t>(segment)});
  }
}

}  // namespace

void FindPlaneRuns(const LagRectangle& tile, const std::vector<double>& knots,
                   LagPart* part) {
  part->runs.clear();
  part->first_run.assign(tile.rows + 1, 0);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* plane = part->plane.data() + r * PlaneStride(tile.keys);
    const double factor = part->row_factor[r];
    const auto begin = static_cast<int32_t>(tile.Begin(r));
    const auto end = static_cast<int32_t>(tile.End(r));
    const auto future = static_cast<int32_t>(
        std::clamp<int64_t>(tile.FirstFuture(r), begin, end));
    SideRuns(plane, begin, future, true, factor, knots, part);
    SideRuns(plane, future, end, false, factor, knots, part);
    part->first_run[r + 1] = static_cast<int32_t>(part->runs.size());
  }
}

void AddPlane(const LagRectangle& tile, const LagPart& part, double factor,
              int64_t stride, float* logits) {
  HWY_DYNAMIC_DISPATCH(AddPlaneImpl)(tile, part, factor, stride, logits);
}

void AddPlaneLines(const LagRectangle& tile, const LagPart& part,
                   const double* values, const double* slopes, int64_t stride,
                   float* logits) {
  HWY_DYNAMIC_DISPATCH(AddPlaneLinesImpl)
  (tile, part, values, slopes, stride, logits);
}

}  // namespace attnd
#endif  // HWY_ONCE
