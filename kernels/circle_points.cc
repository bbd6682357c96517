#include "kernels/circle_points.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/circle_points.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Real = hn::CappedTag<double, 8>;

// The nearest quarter turn is taken off as an integer; what is left, at most an
// eighth of a turn, goes through minimax polynomials in turns.
HWY_INLINE void Points(const uint64_t* HWY_RESTRICT phases, float* cosine,
                       float* sine) {
  const Real d;
  const hn::RebindToUnsigned<Real> du;
  const hn::RebindToSigned<Real> di;
  const hn::Rebind<float, Real> df32;
  const auto phase = hn::LoadU(du, phases);
  const auto quarter =
      hn::ShiftRight<62>(hn::Add(phase, hn::Set(du, uint64_t{1} << 61)));
  const auto rest = hn::BitCast(di, hn::Sub(phase, hn::ShiftLeft<62>(quarter)));
  const auto x = hn::Mul(hn::ConvertTo(d, rest), hn::Set(d, 0x1p-64));
  const auto z = hn::Mul(x, x);
  auto s = hn::MulAdd(hn::Set(d, -75.24006746445276), z,
                      hn::Set(d, 81.588124736032422));
  s = hn::MulAdd(s, z, hn::Set(d, -41.34162804352361));
  s = hn::Mul(hn::MulAdd(s, z, hn::Set(d, 6.2831852203437633)), x);
  auto c = hn::MulAdd(hn::Set(d, 59.220408219986395), z,
                      hn::Set(d, -85.442852149383696));
  c = hn::MulAdd(c, z, hn::Set(d, 64.939316208700761));
  c = hn::MulAdd(c, z, hn::Set(d, -19.739208650358649));
  c = hn::MulAdd(c, z, hn::Set(d, 0.99999999995260132));
  const auto one = hn::Set(du, uint64_t{1}), two = hn::Set(du, uint64_t{2});
  const auto swap = hn::MaskFromVec(
      hn::BitCast(d, hn::VecFromMask(du, hn::Eq(hn::And(quarter, one), one))));
  const auto cosine_sign =
      hn::ShiftLeft<62>(hn::And(hn::Add(quarter, one), two));
  const auto sine_sign = hn::ShiftLeft<62>(hn::And(quarter, two));
  hn::StoreU(hn::DemoteTo(df32, hn::Xor(hn::IfThenElse(swap, s, c),
                                        hn::BitCast(d, cosine_sign))),
             df32, cosine);
  hn::StoreU(hn::DemoteTo(df32, hn::Xor(hn::IfThenElse(swap, c, s),
                                        hn::BitCast(d, sine_sign))),
             df32, sine);
}

void CirclePointsImpl(const uint64_t* phases, int64_t count, float* cosine,
                      float* sine) {
  const int64_t n = hn::Lanes(Real());
  int64_t i = 0;
  for (; i + n <= count; i += n) Points(phases + i, cosine + i, sine + i);
  if (i >= count) return;
  HWY_ALIGN uint64_t last[8] = {};
  HWY_ALIGN float c[8], s[8];
  std::copy(phases + i, phases + count, last);
  Points(last, c, s);
  std::copy(c, c + (count - i), cosine + i);
  std::copy(s, s + (count - i), sine + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(CirclePointsImpl);

void CirclePoints(const uint64_t* phases, int64_t count, float* cosine,
                  float* sine) {
  HWY_DYNAMIC_DISPATCH(CirclePointsImpl)(phases, count, cosine, sine);
}

}  // namespace attnd
#endif  // HWY_ONCE
