#include "kernels/lag_curve.h"

#include <cfloat>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lag_curve.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/lag-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

// Coefficients from the highest down.
template <size_t kCount>
HWY_INLINE Vector Polynomial(Vector x, const float (&c)[kCount]) {
  auto p = hn::Set(Lane(), c[0]);
  for (size_t i = 1; i < kCount; ++i) {
    p = hn::MulAdd(p, x, hn::Set(Lane(), c[i]));
  }
  return p;
}

// ln(1 + u + more), u >= 0, 0 <= more <= 2^-11 u. With y = 2^e m the rounded
// 1 + u and r what is left: e ln 2 + ln(m + 2^-e r), both parts >= 0.
HWY_INLINE Vector LnOnePlus(Vector u, Vector more) {
  const Lane d;
  const hn::RebindToSigned<Lane> di;
  const auto one = hn::Set(d, 1.0f);
  const auto one_bits = hn::BitCast(di, one);
  const auto y = hn::Add(one, u);
  const auto r = hn::Add(more, hn::Sub(u, hn::Sub(y, one)));
  const auto bits = hn::BitCast(di, y);
  const auto whole = hn::ShiftRight<23>(hn::Sub(bits, one_bits));
  const auto shift = hn::ShiftLeft<23>(whole);
  const auto m = hn::BitCast(d, hn::Sub(bits, shift));
  const auto inverse = hn::BitCast(d, hn::Sub(one_bits, shift));  // 2^-e
  const auto t = hn::MulAdd(r, inverse, hn::Sub(m, one));
  // ln(1 + t) / t = 1 + t p on [0, 1], p minimax 5e-9 of the whole.
  const auto p =
      Polynomial(t, {-0.003337957984f, 0.02029548719f, -0.05784215081f,
                     0.1069942295f, -0.1536717541f, 0.1969976824f,
                     -0.2495950889f, 0.3333060961f, -0.4999993664f, 1.0f});
  // ln 2 in two parts: e times the first is rounded together with the rest.
  const auto e = hn::ConvertTo(d, whole);
  const auto fraction =
      hn::MulAdd(e, hn::Set(d, static_cast<float>(M_LN2 - 11629080 * 0x1p-24)),
                 hn::Mul(t, p));
  return hn::MulAdd(e, hn::Set(d, static_cast<float>(11629080 * 0x1p-24)),
                    fraction);
}

// high + low = the factor: its rounding would count for large factors.
struct Factor {
  explicit Factor(double factor)
      : high(hn::Set(Lane(), static_cast<float>(factor))),
        low(hn::Set(Lane(),
                    static_cast<float>(factor - static_cast<float>(factor)))) {}
  HWY_INLINE Vector operator*(Vector x) const {
    return hn::MulAdd(high, x, hn::Mul(low, x));
  }
  Vector high, low;
};

// factor x without a rounding, x >= 0: 12 bits by 12 bits, and the rest, which
// is less than 2^-11 of it.
class ExactProduct {
 public:
  explicit ExactProduct(double factor) {
    int exponent;
    const double digits = std::frexp(factor, &exponent);
    const double high =
        std::ldexp(std::floor(std::ldexp(digits, 12)), exponent - 12);
    high_ = hn::Set(Lane(), static_cast<float>(high));
    low_ = hn::Set(Lane(), static_cast<float>(factor - high));
  }
  HWY_INLINE Vector operator()(Vector x, Vector& rest) const {
    const hn::RebindToUnsigned<Lane> du;
    const auto leading = hn::BitCast(
        Lane(), hn::And(hn::BitCast(du, x), hn::Set(du, 0xFFFFF000u)));
    rest = hn::MulAdd(low_, x, hn::Mul(high_, hn::Sub(x, leading)));
    return hn::Mul(high_, leading);
  }

 private:
  Vector high_, low_;
};

// Calls row(query, keys of the rectangle, r) for every row, times in the item's
// representation.
template <typename F>
HWY_INLINE void ForRows(const LagRectangle& tile, F row) {
  const ItemGeometry& item = *tile.item;
  for (int64_t r = 0; r < tile.rows; ++r) {
    if (item.exact) {
      row(item.query_ticks[tile.first + r], item.key_ticks.data() + tile.key,
          r);
    } else {
      row(item.query_real[tile.first + r], item.key_real.data() + tile.key, r);
    }
  }
}

void SetLagPlaneImpl(double rate, const LagRectangle& tile, float* plane) {
  const int64_t stride = PlaneStride(tile.keys);
  const auto by = hn::Set(Real(), rate);
  ForRows(tile, [&](auto query, const auto* key, int64_t r) HWY_ATTR {
    MapLags<false>(query, key, tile.Begin(r), tile.End(r), plane + r * stride,
                   [&](RealVector lag, int64_t)
                       HWY_ATTR { return hn::Mul(by, hn::Abs(lag)); });
  });
}

void AddLogImpl(double factor, double rate, const LagRectangle& tile,
                const float* plane, int64_t stride, float* logits) {
  const Lane d;
  const int64_t n = hn::Lanes(d), width = PlaneStride(tile.keys);
  const Factor by(factor);
  const ExactProduct times(rate);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t begin = tile.Begin(r), end = tile.End(r);
    PrefetchPlane(plane + (r + kPlaneRowsAhead) * width, begin, end);
    for (int64_t c = begin; c < end; c += n) {
      Vector more;
      const auto u = times(hn::LoadU(d, plane + r * width + c), more);
      AddLanes(by * LnOnePlus(u, more), c, end, logits + r * stride);
    }
  }
}

void SetLogPlaneImpl(double rate, const LagRectangle& tile, float* plane) {
  const Real d;
  const int64_t stride = PlaneStride(tile.keys);
  const auto by = hn::Set(d, rate), one = hn::Set(d, 1.0);
  const auto most = hn::Set(d, DBL_MAX), ln2 = hn::Set(d, M_LN2);
  ForRows(tile, [&](auto query, const auto* key, int64_t r) HWY_ATTR {
    MapLags<false>(query, key, tile.Begin(r), tile.End(r), plane + r * stride,
                   [&](RealVector lag, int64_t) HWY_ATTR {
                     const auto x = hn::MulAdd(by, hn::Abs(lag), one);
                     return hn::Mul(ln2, Log2(hn::Min(x, most)));
                   });
  });
}

// 2^25: logarithms up to 64 with a rounding of 1.5e-8.
constexpr double kLogUnits = 0x1p25;
// Stands for log2(0).
constexpr int32_t kLogOfZero = INT32_MIN;

template <typename T>
HWY_INLINE void BinaryLogRow(double rate, T query, const T* HWY_RESTRICT key,
                             int64_t begin, int64_t end,
                             int32_t* HWY_RESTRICT row) {
  const Real d;
  const hn::Rebind<int32_t, Real> di;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, rate), units = hn::Set(d, kLogUnits);
  const auto least = hn::Set(d, double{INT32_MIN + 1});
  const auto most = hn::Set(d, double{INT32_MAX});
  HWY_ALIGN T keys[8];
  HWY_ALIGN int32_t logs[8];
  for (int64_t c = begin; c < end; c += n) {
    const T* at = key + c;
    if (c + n > end) {
      for (int64_t i = 0; i < n; ++i) keys[i] = key[std::min(c + i, end - 1)];
      at = keys;
    }
    const auto size = hn::Mul(by, hn::Abs(Lags(query, at)));
    auto log = hn::Round(hn::Mul(units, Log2(size)));
    log = hn::Min(hn::Max(log, least), most);
    log = hn::IfThenElse(hn::Eq(size, hn::Zero(d)),
                         hn::Set(d, double{kLogOfZero}), log);
    int32_t* to = c + n > end ? logs : row + c;
    hn::StoreU(hn::DemoteTo(di, log), di, to);
    if (to == logs) std::copy(logs, logs + (end - c), row + c);
  }
}

void BinaryLogImpl(double rate, const LagRectangle& tile, float* plane) {
  // Same size, and never read as floats.
  auto* logs = reinterpret_cast<int32_t*>(plane);
  ForRows(tile, [&](auto query, const auto* key, int64_t r) HWY_ATTR {
    BinaryLogRow(rate, query, key, tile.Begin(r), tile.End(r),
                 logs + r * PlaneStride(tile.keys));
  });
}

// 2^(exponent log2 D + log2 size), log2 D an integer and a fraction. Exponent
// and constant are split after 14 and 12 bits: what their leading parts and the
// integer give is exact also without fused products, and the argument of 2^x
// loses nothing but its last rounding.
class Power {
 public:
  Power(double size, double exponent) {
    const Lane d;
    const double constant = std::log2(size);
    const double whole = std::round(constant);
    const double part = std::round((constant - whole) * 4096) / 4096;
    const double high = std::round(exponent * 0x1p14) / 0x1p14;
    high_ = hn::Set(d, static_cast<float>(high));
    low_ = hn::Set(d, static_cast<float>(exponent - high));
    fraction_ = hn::Set(d, static_cast<float>(exponent / kLogUnits));
    part_ = hn::Set(d, static_cast<float>(part));
    rest_ = hn::Set(d, static_cast<float>(constant - whole - part));
    bias_ =
        hn::Set(hn::RebindToSigned<Lane>(), static_cast<int32_t>(whole) + 127);
    least_ = hn::Set(d, static_cast<float>(-127 - whole));
    most_ = hn::Set(d, static_cast<float>(126 - whole));
  }

  HWY_INLINE Vector operator()(hn::Vec<hn::RebindToSigned<Lane>> log) const {
    const Lane d;
    const hn::RebindToSigned<Lane> di;
    const auto whole = hn::ShiftRight<25>(log);
    const auto e = hn::ConvertTo(d, whole);
    const auto g = hn::ConvertTo(d, hn::Sub(log, hn::ShiftLeft<25>(whole)));
    // exponent * fraction + rest, small.
    const auto small = hn::MulAdd(low_, e, hn::MulAdd(fraction_, g, rest_));
    const auto x = hn::Add(hn::MulAdd(high_, e, part_), small);
    const auto n = hn::Round(hn::Min(hn::Max(x, least_), most_));
    auto f = hn::Add(hn::MulAdd(high_, e, hn::Sub(part_, n)), small);
    f = hn::Min(hn::Max(f, hn::Set(d, -0.52f)), hn::Set(d, 0.52f));
    // 2^f = 1 + f p, p minimax 3e-9.
    const auto p =
        Polynomial(f, {0.0001548203479f, 0.001340536886f, 0.00961798358f,
                       0.0555031498f, 0.2402265151f, 0.693147212f, 1.0f});
    // 2^-127 has no bits of its own: it is 0.
    const auto scale =
        hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), bias_)));
    const auto zero = hn::Eq(log, hn::Set(di, kLogOfZero));
    return hn::IfThenZeroElse(hn::RebindMask(d, zero), hn::Mul(p, scale));
  }

 private:
  Vector high_, low_, fraction_, part_, rest_, least_, most_;
  hn::Vec<hn::RebindToSigned<Lane>> bias_;
};

void SubtractPowerImpl(double size, double exponent, const LagRectangle& tile,
                       const float* plane, int64_t stride, float* logits) {
  const hn::RebindToSigned<Lane> di;
  const int64_t n = hn::Lanes(di), width = PlaneStride(tile.keys);
  const Power power(size, exponent);
  const auto* logs = reinterpret_cast<const int32_t*>(plane);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const int64_t begin = tile.Begin(r), end = tile.End(r);
    PrefetchPlane(plane + (r + kPlaneRowsAhead) * width, begin, end);
    for (int64_t c = begin; c < end; c += n) {
      AddLanes(hn::Neg(power(hn::LoadU(di, logs + r * width + c))), c, end,
               logits + r * stride);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(SetLagPlaneImpl);
HWY_EXPORT(AddLogImpl);
HWY_EXPORT(SetLogPlaneImpl);
HWY_EXPORT(BinaryLogImpl);
HWY_EXPORT(SubtractPowerImpl);

float* Plane(const LagRectangle& tile, LagPart* part) {
  return part->plane.Reserve(tile.rows * PlaneStride(tile.keys) + kPlaneSlack);
}

}  // namespace

void SetLagPlane(double rate, const LagRectangle& tile, LagPart* part) {
  HWY_DYNAMIC_DISPATCH(SetLagPlaneImpl)(rate, tile, Plane(tile, part));
}

void AddLog(double factor, double rate, const LagRectangle& tile,
            const LagPart& part, int64_t stride, float* logits) {
  HWY_DYNAMIC_DISPATCH(AddLogImpl)
  (factor, rate, tile, part.plane.data(), stride, logits);
}

void SetLogPlane(double rate, const LagRectangle& tile, LagPart* part) {
  HWY_DYNAMIC_DISPATCH(SetLogPlaneImpl)(rate, tile, Plane(tile, part));
}

void SetBinaryLogPlane(double rate, const LagRectangle& tile, LagPart* part) {
  HWY_DYNAMIC_DISPATCH(BinaryLogImpl)(rate, tile, Plane(tile, part));
}

void SubtractPower(double size, double exponent, const LagRectangle& tile,
                   const LagPart& part, int64_t stride, float* logits) {
  HWY_DYNAMIC_DISPATCH(SubtractPowerImpl)
  (size, exponent, tile, part.plane.data(), stride, logits);
}

}  // namespace attnd
#endif  // HWY_ONCE
