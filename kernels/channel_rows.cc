#include "kernels/channel_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attnd {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

}  // namespace

void ChannelRows::Add(int64_t row, int64_t channel, float sink) {
  channels_.push_back({.row = row,
                       .channel = channel,
                       .max = sink,
                       .sum = sink == kMinusInfinity ? 0.0 : 1.0});
}

void ChannelRows::Advance(int64_t row, const float* logits, int64_t count,
                          const float* values, int64_t stride, int64_t dim) {
  const auto of_row = [](const Channel& c, int64_t r) { return c.row < r; };
  for (auto it =
           std::lower_bound(channels_.begin(), channels_.end(), row, of_row);
       it != channels_.end() && it->row == row; ++it) {
    const float* value = values + it->channel;
    for (int64_t k = 0; k < count; ++k, value += stride) {
      if (value[dim] == 0 || logits[k] == kMinusInfinity) continue;
      if (logits[k] > it->max) {
        const double factor = std::exp(it->max - logits[k]);
        it->sum *= factor;
        it->weighted *= factor;
        it->max = logits[k];
      }
      const double weight = std::exp(logits[k] - it->max);
      it->sum += weight;
      it->weighted += weight * value[0];
    }
  }
}

}  // namespace attnd
