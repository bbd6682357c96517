#include "kernels/circle_distances.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/circle_distances.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Lane = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Lane>;

// Terms of a run of frequencies are summed on their own, then eight runs, eight
// of those, ...: sums are good to about 2e-7, of 64 frequencies or of
// thousands.
constexpr int64_t kRun = 4;
constexpr int64_t kFanIn = 8;
constexpr int64_t kAll = kRun * kFanIn * kFanIn * kFanIn;

// kCircleRows rows times 2 vectors of keys.
using Block = Vector[kCircleRows][2];

HWY_INLINE void Clear(Block& block) {
  for (auto& row : block) row[0] = row[1] = hn::Zero(Lane());
}

// What is summed, two to a circle: squares of differences, which cancel
// nothing, or the products of 1 - cos a cos b - sin a sin b, which take 2/3 of
// the time.
enum class Terms { kDifferences, kProducts };

// sum += the squared distances over the frequencies [first, last), or with
// products half of them. A row holds all cosines, then, `circles` floats on,
// all sines; keys lie frequency by frequency, kCircleKeys floats apart, in the
// same order.
template <Terms kTerms>
HWY_INLINE void AddRun(const float* HWY_RESTRICT rows, int64_t circles,
                       const float* HWY_RESTRICT key, int64_t first,
                       int64_t last, Block& sum) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  Block run;
  Clear(run);
  const auto add = [&](int64_t channel) HWY_ATTR {
    const auto k0 = hn::LoadU(d, key + channel * kCircleKeys);
    const auto k1 = hn::LoadU(d, key + channel * kCircleKeys + n);
    for (int64_t r = 0; r < kCircleRows; ++r) {
      const auto q = hn::Set(d, rows[channel * kCircleRows + r]);
      if constexpr (kTerms == Terms::kProducts) {
        run[r][0] = hn::MulAdd(q, k0, run[r][0]);
        run[r][1] = hn::MulAdd(q, k1, run[r][1]);
      } else {
        const auto d0 = hn::Sub(q, k0), d1 = hn::Sub(q, k1);
        run[r][0] = hn::MulAdd(d0, d0, run[r][0]);
        run[r][1] = hn::MulAdd(d1, d1, run[r][1]);
      }
    }
  };
  for (int64_t f = first; f < last; ++f) {
    add(f);
    add(f + circles);
  }
  const auto ones = hn::Set(d, static_cast<float>(last - first));
  for (int64_t r = 0; r < kCircleRows; ++r) {
    for (int v = 0; v < 2; ++v) {
      const auto term =
          kTerms == Terms::kProducts ? hn::Sub(ones, run[r][v]) : run[r][v];
      sum[r][v] = hn::Add(sum[r][v], term);
    }
  }
}

// sum += the terms of all frequencies in [first, last), kLength or fewer.
template <Terms kTerms, int64_t kLength>
HWY_INLINE void AddLevel(const float* rows, int64_t circles, const float* key,
                         int64_t first, int64_t last, Block& sum) {
  if constexpr (kLength == kRun) {
    AddRun<kTerms>(rows, circles, key, first, last, sum);
  } else {
    constexpr int64_t kPart = kLength / kFanIn;
    Block part;
    Clear(part);
    for (int64_t f = first; f < last; f += kPart) {
      AddLevel<kTerms, kPart>(rows, circles, key, f, std::min(f + kPart, last),
                              part);
    }
    for (int64_t r = 0; r < kCircleRows; ++r) {
      for (int v = 0; v < 2; ++v) sum[r][v] = hn::Add(sum[r][v], part[r][v]);
    }
  }
}

template <Terms kTerms>
HWY_INLINE void Sum(const float* rows, const float* key, int64_t circles,
                    Block& sum) {
  Clear(sum);
  for (int64_t f = 0; f < circles; f += kAll) {
    AddLevel<kTerms, kAll>(rows, circles, key, f, std::min(f + kAll, circles),
                           sum);
  }
}

// Products leave an error of 1e-6 or so, however small the distance: they are
// kept from 1 a circle on, half the mean.
HWY_INLINE void SumFar(const float* rows, const float* key, int64_t circles,
                       Block& distances) {
  const Lane d;
  const auto far = hn::Set(d, static_cast<float>(circles));
  Sum<Terms::kProducts>(rows, key, circles, distances);
  auto least = far;
  for (auto& row : distances) {
    for (auto& distance : row) {
      distance = hn::Add(distance, distance);
      least = hn::Min(least, distance);
    }
  }
  if (hn::AllTrue(d, hn::Ge(least, far))) return;
  Block near;
  Sum<Terms::kDifferences>(rows, key, circles, near);
  for (int64_t r = 0; r < kCircleRows; ++r) {
    for (int v = 0; v < 2; ++v) {
      distances[r][v] = hn::IfThenElse(hn::Ge(distances[r][v], far),
                                       distances[r][v], near[r][v]);
    }
  }
}

// plane[r, c] = |rows[r] - key[., c]|^2 for kCircleRows rows and the columns of
// one block of keys that cover [begin, end), in steps of 2 vectors. Rows beyond
// the last may be garbage.
void CircleDistancesImpl(const float* rows, const float* key, int64_t circles,
                         int64_t begin, int64_t end, int64_t stride, bool near,
                         float* HWY_RESTRICT plane) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  // A plane is seldom in a cache when it is filled: asks for the next rows.
  for (int64_t r = kCircleRows; r < 2 * kCircleRows; ++r) {
    for (int64_t c = begin; c < end; c += 16) {
      hwy::Prefetch(plane + r * stride + c);
    }
  }
  for (int64_t c = begin / (2 * n) * (2 * n); c < end; c += 2 * n) {
    Block distances;
    if (near) {
      Sum<Terms::kDifferences>(rows, key + c, circles, distances);
    } else {
      SumFar(rows, key + c, circles, distances);
    }
    for (int64_t r = 0; r < kCircleRows; ++r) {
      for (int v = 0; v < 2; ++v) {
        hn::StoreU(distances[r][v], d, plane + r * stride + c + v * n);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(CircleDistancesImpl);

void CircleDistances(const float* rows, const float* keys, int64_t circles,
                     int64_t begin, int64_t end, int64_t stride, bool near,
                     float* plane) {
  HWY_DYNAMIC_DISPATCH(CircleDistancesImpl)
  (rows, keys, circles, begin, end, stride, near, plane);
}

}  // namespace attnd
#endif  // HWY_ONCE
