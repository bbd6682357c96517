#include "kernels/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace attnd {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

}  // namespace

void MergePartial(absl::Span<const PartialAnswer> parts, int64_t dim,
                  absl::Span<float> output, absl::Span<float> lse) {
  std::vector<double> sums(dim);
  for (size_t r = 0; r < lse.size(); ++r) {
    double max = kMinusInfinity, sum = 0;
    for (const PartialAnswer& part : parts) {
      max = std::max<double>(max, part.lse[r]);
    }
    std::fill(sums.begin(), sums.end(), 0.0);
    for (const PartialAnswer& part : parts) {
      if (part.lse[r] == kMinusInfinity) continue;
      const double weight = std::exp(part.lse[r] - max);
      sum += weight;
      const float* row = part.output.data() + r * dim;
      for (int64_t c = 0; c < dim; ++c) sums[c] += weight * row[c];
    }
    lse[r] = static_cast<float>(max + std::log(sum));
    for (int64_t c = 0; c < dim; ++c) {
      output[r * dim + c] = sum == 0 ? 0 : static_cast<float>(sums[c] / sum);
    }
  }
}

}  // namespace attnd
