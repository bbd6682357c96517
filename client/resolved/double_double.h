// Numbers of twice the precision of a double, for lags and phases: about 106
// bits, so that an angle of 2^60 turns keeps 13 digits of its fraction.
#ifndef ATTND_CLIENT_RESOLVED_DOUBLE_DOUBLE_H_
#define ATTND_CLIENT_RESOLVED_DOUBLE_DOUBLE_H_

#include <cmath>
#include <cstdint>

namespace attnd::client::resolved {

// high + low, |low| <= half an ulp of high. Finite values only.
struct DoubleDouble {
  double high = 0, low = 0;
};

// a + b exactly (Knuth).
inline DoubleDouble ExactSum(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

// a * b exactly.
inline DoubleDouble ExactProduct(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

// Exact for every pair of int64.
inline DoubleDouble ExactDifference(int64_t a, int64_t b) {
  const __int128 difference = static_cast<__int128>(a) - b;
  const auto high = static_cast<double>(difference);
  return {high, static_cast<double>(difference - static_cast<__int128>(high))};
}

inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble product = ExactProduct(a.high, b.high);
  return ExactSum(product.high,
                  product.low + (a.high * b.low + a.low * b.high));
}

inline DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double first = a.high / b.high;
  const DoubleDouble back = b * DoubleDouble{first, 0};
  const double rest = ((a.high - back.high) - back.low) + a.low;
  return ExactSum(first, rest / b.high);
}

// x less its nearest whole number.
inline double Fraction(DoubleDouble x) {
  const DoubleDouble rest =
      ExactSum(x.high - std::nearbyint(x.high), x.low - std::nearbyint(x.low));
  return (rest.high - std::nearbyint(rest.high)) + rest.low;
}

// Largest whole number <= x, where a double holds it.
inline double Floor(DoubleDouble x) {
  const double floor = std::floor(x.high);
  return floor == x.high && x.low < 0 ? floor - 1 : floor;
}

inline DoubleDouble Magnitude(DoubleDouble x) {
  return x.high < 0 ? DoubleDouble{-x.high, -x.low} : x;
}

// 2 pi to 106 bits.
inline constexpr DoubleDouble kTwoPi = {6.283185307179586477,
                                        2.449293598294706414e-16};

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_DOUBLE_DOUBLE_H_
