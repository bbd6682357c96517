#include "kernels/key_mass.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

namespace attnd {
namespace {

constexpr uint64_t kNotANumber = uint64_t{1} << 63;

// Such that a weight of 1 from every row stays below 2^62.
int Exponent(int64_t query_rows) {
  return 61 -
         static_cast<int>(std::bit_width(static_cast<uint64_t>(query_rows)));
}

}  // namespace

void AddKeyMass(float weight, int64_t query_rows, uint64_t& sum) {
  std::atomic_ref<uint64_t> shared(sum);
  if (std::isnan(weight)) {
    shared.fetch_or(kNotANumber, std::memory_order_relaxed);
    return;
  }
  if (weight == 0) return;
  const double units = std::ldexp(double{weight}, Exponent(query_rows));
  shared.fetch_add(static_cast<uint64_t>(std::llrint(units)),
                   std::memory_order_relaxed);
}

void ReadKeyMass(absl::Span<const uint64_t> sums, int64_t query_rows,
                 absl::Span<float> mass) {
  for (size_t j = 0; j < sums.size(); ++j) {
    mass[j] = (sums[j] & kNotANumber) != 0
                  ? std::numeric_limits<float>::quiet_NaN()
                  : static_cast<float>(std::ldexp(static_cast<double>(sums[j]),
                                                  -Exponent(query_rows)));
  }
}

}  // namespace attnd
