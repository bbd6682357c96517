// The random numbers behind every --seed.
//
// SplitMix64 (G. L. Steele, D. Lea and C. H. Flood 2014, the constants of
// java.util.SplittableRandom), so that a seed means the same numbers on every
// machine and in every program that cares to repeat it: the standard library's
// distributions promise no such thing.
#ifndef ATTND_CLIENT_RANDOM_H_
#define ATTND_CLIENT_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <numbers>

namespace attnd::client {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // 64 random bits.
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound), bound >= 1, without bias: values of the last,
  // incomplete round of `bound` are drawn again.
  uint64_t Below(uint64_t bound) {
    const uint64_t incomplete = -bound % bound;  // 2^64 mod bound
    uint64_t value;
    do {
      value = Next();
    } while (value < incomplete);
    return value % bound;
  }

  // Uniform in [0, 1): the upper 53 bits.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  // Exponential with mean 1.
  double Exponential() { return -std::log1p(-Uniform()); }

  // Normal with mean 0 and variance 1 (Box and Muller 1958, the cosine half).
  double Normal() {
    const double radius = std::sqrt(2 * Exponential());
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  uint64_t state_;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_RANDOM_H_
