#include "kernels/feature_map.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/feature_map.cc"
// foreach_target.h comes first: it includes this file again.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
// clang-format on

#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void ApplyFeatureMapImpl(LinearOptions::FeatureMap map, float* row,
                         int64_t dim) {
  const hn::CappedTag<float, 16> d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  for (int64_t c = 0; c < dim; c += n) {
    const auto x = LoadFirst(d, row + c, dim - c);
    auto y = hn::Max(x, zero);
    if (map == LinearOptions::FeatureMap::kEluPlusOne) {
      y = hn::IfThenElse(hn::Gt(x, zero), hn::Add(x, one),
                         hn::Exp(d, hn::Min(x, zero)));
    } else if (map == LinearOptions::FeatureMap::kSoftplus) {
      y = hn::Add(y, hn::Log1p(d, hn::Exp(d, hn::Neg(hn::Abs(x)))));
    }
    StoreFirst(y, d, row + c, dim - c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(ApplyFeatureMapImpl);

void ApplyFeatureMap(LinearOptions::FeatureMap map, float* row, int64_t dim) {
  if (map == LinearOptions::FeatureMap::kIdentity) return;
  float check = 0;  // 0 * x is NaN exactly for non-finite x
  for (int64_t c = 0; c < dim; ++c) check += row[c] * 0.0f;
  if (check != 0) {
    std::fill(row, row + dim, std::numeric_limits<float>::quiet_NaN());
    return;
  }
  HWY_DYNAMIC_DISPATCH(ApplyFeatureMapImpl)(map, row, dim);
}

}  // namespace attnd
#endif  // HWY_ONCE
