#include "kernels/linear_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "kernels/held_reference.h"
#include "kernels/linear_normaliser.h"
#include "kernels/reference_encoding.h"
#include "kernels/reference_pairs.h"

namespace attnd {
namespace {

using reference::Lag;
using reference::PairGenerator;
using reference::PairRules;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double Feature(LinearOptions::FeatureMap map, double x) {
  switch (map) {
    case LinearOptions::FeatureMap::kIdentity:
      return x;
    case LinearOptions::FeatureMap::kEluPlusOne:
      return x > 0 ? x + 1 : std::exp(x);
    case LinearOptions::FeatureMap::kRelu:
      return x > 0 || std::isnan(x) ? x : 0;
    case LinearOptions::FeatureMap::kSoftplus:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  return x;
}

std::vector<double> Row(const TensorRef& tensor, int64_t b, int64_t h,
                        int64_t i) {
  std::vector<float> row(tensor.shape().cols);
  tensor.LoadRow(b, h, i, row.data());
  return {row.begin(), row.end()};
}

std::vector<double> FeatureRow(const TensorRef& tensor, int64_t b, int64_t h,
                               int64_t i, LinearOptions::FeatureMap map) {
  std::vector<double> out;
  bool finite = true;
  for (double x : Row(tensor, b, h, i)) {
    finite = finite && std::isfinite(x);
    out.push_back(Feature(map, x));
  }
  // A non-finite element spoils the row, whatever the map makes of it.
  if (!finite) std::fill(out.begin(), out.end(), kNaN);
  return out;
}

// 0: hidden. 1: at or before the query; 2: after it.
int SideOf(const LinearProblem& problem, const PairRules& rules, int64_t i,
           int64_t j) {
  if (!rules.ValidQuery(i) || !rules.ValidKey(j)) return 0;
  const Lag lag = rules.LagOf(i, j);
  const double sign =
      lag.rounded != 0 ? lag.rounded : static_cast<double>(lag.ticks);
  if (sign > 0) return 1;
  if (sign == 0) return problem.attention.mask.strict ? 0 : 1;
  return problem.options.bidirectional ? 2 : 0;
}

// Sums of one query row of one head.
struct RowSums {
  std::vector<double> value, size;
  double ones = 0, ones_size = 0, decays = 0;
};

void Add(double dot, double dot_size, const std::vector<double>& v,
         RowSums& sums) {
  sums.ones += dot;
  sums.ones_size += dot_size;
  for (size_t c = 0; c < v.size(); ++c) {
    // 0 * v: NaN from every v that is not finite, whatever its weight.
    sums.value[c] += dot * v[c] + 0 * v[c];
    sums.size[c] += dot_size * std::abs(v[c]);
  }
}

// The rate that a head's channels share; for RetNet's normaliser.
double CommonRate(const Encoder* encoder, int64_t kv_head) {
  if (encoder == nullptr) return 0;
  const auto& chains = encoder->head(kv_head).generator().chains();
  return chains.empty() ? 0 : chains[0].rate;
}

void Finish(const LinearOptions& options, double scale, RowSums& sums) {
  double by = scale;
  switch (options.normaliser) {
    case LinearOptions::Normaliser::kNone:
      break;
    case LinearOptions::Normaliser::kSum:
      // The scale is part of the sum that is looked at.
      by = std::abs(scale * sums.ones) < kLeastSum ? 0 : 1 / sums.ones;
      break;
    case LinearOptions::Normaliser::kRetNet: {
      if (sums.decays == 0) break;
      const double root = std::sqrt(sums.decays);
      const double total = std::abs(scale * sums.ones / root);
      // A NaN stays one.
      by = scale / root / (total > 5e4 ? 5e4 : total < 1 ? 1 : total);
    }
  }
  for (double& x : sums.value) x *= by;
  for (double& x : sums.size) x *= std::abs(by);
  // The divisor's own error moves the whole row.
  if (options.normaliser == LinearOptions::Normaliser::kNone) return;
  const double doubt =
      sums.ones == 0 ? 0 : sums.ones_size / std::abs(sums.ones);
  for (size_t c = 0; c < sums.value.size(); ++c) {
    sums.size[c] += doubt * std::abs(sums.value[c]);
  }
}

}  // namespace

absl::StatusOr<LinearReferenceAnswer> ReferenceLinear(
    const LinearProblem& problem) {
  const AttentionProblem& p = problem.attention;
  const LinearOptions& options = problem.options;
  const Shape4 q = p.query.shape(), k = p.key.shape();
  const int64_t channels = p.value.shape().cols;
  if (k.heads == 0 || q.heads % k.heads != 0) {
    return absl::InvalidArgumentError("key: heads must divide the query's");
  }
  const bool held = options.input_rule != LinearOptions::InputRule::kEvent;
  LinearReferenceAnswer answer;
  answer.output.resize(q.batch * q.heads * q.rows * channels);
  answer.size.resize(answer.output.size());
  for (int64_t item = 0; item < ItemCount(p); ++item) {
    const PairRules rules(p, item);
    const int64_t b = rules.batch();
    const Encoder* encoder =
        p.item_encoders.empty() ? p.encoder.get() : p.item_encoders[item].get();
    for (int64_t h = 0; h < q.heads; ++h) {
      const int64_t g = h / (q.heads / k.heads);
      PairGenerator generator(p, encoder, b, g);
      reference::HeldKeys keys(problem, rules, encoder, b, g);
      const double rate = CommonRate(encoder, g);
      for (int64_t i = 0; i < q.rows; ++i) {
        if (!rules.ValidQuery(i)) continue;
        RowSums sums{std::vector<double>(channels),
                     std::vector<double>(channels)};
        const std::vector<double> query =
            FeatureRow(p.query, b, h, i, options.feature_map);
        std::vector<double> moved, size;
        for (int64_t j = 0; j < k.rows; ++j) {
          if (SideOf(problem, rules, i, j) == 0) continue;
          const std::vector<double> key =
              FeatureRow(p.key, b, g, j, options.feature_map);
          if (held) {
            if (!keys.Move(i, j, key, moved, size)) {
              return absl::OutOfRangeError(
                  "a hold takes too many turns to be integrated");
            }
          } else {
            generator.Turn(rules, i, j);
            std::vector<double> key_size = key;
            for (double& x : key_size) x = std::abs(x);
            generator.Apply(key, key_size, moved, size);
          }
          double dot = 0, dot_size = 0;
          for (size_t c = 0; c < moved.size(); ++c) {
            dot += query[c] * moved[c];
            dot_size += std::abs(query[c]) * size[c];
          }
          if (!std::isfinite(dot_size)) dot = kNaN;
          const double lag = encoder == nullptr
                                 ? 0
                                 : rules.LagOf(i, j).rounded *
                                       encoder->ratio().units_per_tick();
          sums.decays += std::exp(-rate * std::abs(lag));
          Add(dot, dot_size, Row(p.value, b, g, j), sums);
        }
        Finish(options, p.scale, sums);
        const int64_t at = ((b * q.heads + h) * q.rows + i) * channels;
        std::copy(sums.value.begin(), sums.value.end(),
                  answer.output.begin() + at);
        std::copy(sums.size.begin(), sums.size.end(), answer.size.begin() + at);
      }
    }
  }
  return answer;
}

}  // namespace attnd
