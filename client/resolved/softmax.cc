#include "client/resolved/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace attnd::client::resolved {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double Softmax(absl::Span<const double> scores, std::optional<double> sink,
               absl::Span<double> weights) {
  double max = sink.value_or(-kInfinity);
  bool broken = false;
  for (double score : scores) {
    broken |= std::isnan(score);
    max = std::max(max, score);
  }
  std::fill(weights.begin(), weights.end(), 0.0);
  if (!broken && max == -kInfinity) return -kInfinity;
  double sum = sink ? std::exp(*sink - max) : 0;
  for (double score : scores) sum += std::exp(score - max);
  for (size_t j = 0; j < scores.size(); ++j) {
    if (scores[j] == -kInfinity) continue;
    weights[j] = broken ? kNaN : std::exp(scores[j] - max) / sum;
  }
  return broken ? kNaN : max + std::log(sum);
}

double Average(absl::Span<const double> scores, std::optional<double> sink,
               const ValueView& values, absl::Span<double> output) {
  double largest = 0;
  std::vector<double> seen(scores.size()), weights(scores.size());
  std::vector<bool> mask, last_mask;
  for (size_t c = 0; c < output.size(); ++c) {
    mask.resize(scores.size());
    for (size_t j = 0; j < scores.size(); ++j) {
      mask[j] = values.observed(j, c);
      seen[j] = mask[j] ? scores[j] : -kInfinity;
    }
    if (c == 0 || mask != last_mask) {
      Softmax(seen, sink, absl::MakeSpan(weights));
      last_mask = mask;
    }
    output[c] = 0;
    for (size_t j = 0; j < scores.size(); ++j) {
      if (seen[j] == -kInfinity) continue;
      const double v = values.row(j)[c];
      // 0 * v: NaN from every v that is not finite, whatever its weight.
      output[c] += weights[j] * v + 0 * v;
      largest = std::max(largest, std::abs(v));
    }
  }
  return largest;
}

}  // namespace attnd::client::resolved
