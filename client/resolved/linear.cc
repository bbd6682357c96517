#include "client/resolved/linear.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "client/resolved/attention.h"

namespace attnd::client::resolved {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// RetNet's code holds the sum of weights between 1 and this.
constexpr double kMostRetNet = 5e4;
// A smaller sum of weights answers 0.
constexpr double kLeastSum = 1e-30;
// Weights that a float does not hold may count as 0: this share of |q| |k|, as
// a part of a size of which kLinearAccuracy is taken.
constexpr double kUnderflow = 0x1p-126 / kLinearAccuracy;

double Sum(absl::Span<const double> row) {
  double sum = 0;
  for (double x : row) sum += x;
  return sum;
}

double Feature(v1::LinearOptions::FeatureMap map, double x) {
  switch (map) {
    case v1::LinearOptions::FEATURE_MAP_ELU_PLUS_ONE:
      return x > 0 ? x + 1 : std::exp(x);
    case v1::LinearOptions::FEATURE_MAP_RELU:
      return std::max(x, 0.0);
    case v1::LinearOptions::FEATURE_MAP_SOFTPLUS:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    default:
      return x;
  }
}

}  // namespace

void ApplyFeatureMap(v1::LinearOptions::FeatureMap map, Array* rows) {
  rows->MapRows([&](absl::Span<double> row) {
    const bool finite = std::all_of(row.begin(), row.end(),
                                    [](double x) { return std::isfinite(x); });
    for (double& x : row) x = finite ? Feature(map, x) : kNaN;
  });
}

v1::Mask LinearMask(const v1::AttendRequest& request) {
  v1::Mask mask = request.mask();
  mask.set_causal(request.linear().bidirectional() ? v1::CAUSALITY_NONE
                                                   : v1::CAUSALITY_TIME);
  return mask;
}

LinearRows::LinearRows(const v1::AttendRequest& request, const Inputs& in,
                       const Times& times, const Sequence& sequence,
                       const v1::ResolvedEncoding& encoding)
    : request_(request),
      options_(request.linear()),
      in_(in),
      times_(times),
      sequence_(sequence),
      group_(in.query.heads() / in.key.heads()),
      units_(encoding, times),
      visibility_(request, times, sequence, in.key.rows()),
      lags_(encoding, times, sequence, in.query_clock, in.key_clock),
      scale_(request.has_scale()
                 ? request.scale()
                 : 1 / std::sqrt(static_cast<double>(in.query.columns()))) {}

absl::StatusOr<LinearRows> LinearRows::Make(
    const v1::AttendRequest& request, const Inputs& in, const Times& times,
    const Sequence& sequence, const v1::ResolvedEncoding& encoding) {
  if (request.linear().has_initial_state() ||
      request.linear().merge_states_size() > 0) {
    return absl::UnimplementedError(
        "linear: carried states are not computed; verify the whole stream");
  }
  LinearRows rows(request, in, times, sequence, encoding);
  absl::StatusOr<std::vector<Generator>> generators =
      GeneratorsOf(encoding, in.key.heads(), in.query.columns());
  if (!generators.ok()) return generators.status();
  rows.generators_ = *std::move(generators);
  rows.heads_differ_ = rows.generators_.size() > 1 || ReadsClock(encoding);
  rows.absolute_lag_ = TakesAbsoluteLags(request, encoding);
  return rows;
}

// Bidirectional and strict: keys at the query's own time belong to neither
// side.
bool LinearRows::Sees(int64_t i, int64_t key) const {
  if (!visibility_.Sees(i, key)) return false;
  if (!options_.bidirectional() || !request_.mask().strict()) return true;
  const Lag lag = times_.QueryMinusKey(sequence_, i, key);
  return lag.ticks != 0 || lag.real != 0;
}

// Since the key before, in units.
double LinearRows::Gap(size_t rank) const {
  if (rank == 0) return 0;
  const std::vector<int64_t>& order = visibility_.order();
  return units_.In(times_.KeyMinusKey(sequence_, order[rank], order[rank - 1]))
      .high;
}

double LinearRows::Turn(int64_t kv_head, int64_t i, size_t rank) {
  const std::vector<int64_t>& order = visibility_.order();
  const Generator& generator = GeneratorOf(kv_head);
  const bool followed = rank + 1 < order.size() && Sees(i, order[rank + 1]);
  if (options_.input_rule() == v1::LinearOptions::INPUT_RULE_ZERO_ORDER_HOLD) {
    if (followed) {
      lags_.SelectKeys(kv_head, order[rank + 1], order[rank]);
      product_.TurnHeld(generator, lags_, Gap(rank + 1));
      lags_.Select(kv_head, i, order[rank + 1]);
      product_.TurnFurther(generator, lags_);
    } else {
      lags_.Select(kv_head, i, order[rank]);
      product_.TurnHeld(
          generator, lags_,
          units_.In(times_.QueryMinusKey(sequence_, i, order[rank])).high);
    }
    return 1;
  }
  lags_.Select(kv_head, i, order[rank]);
  product_.Turn(generator, lags_, absolute_lag_);
  return options_.input_rule() == v1::LinearOptions::INPUT_RULE_TRAPEZOID
             ? (Gap(rank) + (followed ? Gap(rank + 1) : 0)) / 2
             : 1;
}

// Of the rate that all channels share, over the pair turned to last.
double LinearRows::Decay(int64_t kv_head) const {
  double decay = 1;
  GeneratorOf(kv_head).FirstRate([&](double rate, const Drive& drive) {
    decay = std::exp(-rate * std::abs(lags_.UnitsAlong(drive)));
  });
  return decay;
}

void LinearRows::Finish(const Sums& sums, absl::Span<double> output,
                        absl::Span<double> size) const {
  double by = scale_;
  if (options_.normaliser() == v1::LinearOptions::NORMALISER_SUM) {
    by = std::abs(sums.ones) < kLeastSum ? 0 : 1 / sums.ones;
  } else if (options_.normaliser() == v1::LinearOptions::NORMALISER_RETNET) {
    if (sums.decays > 0) {
      const double root = std::sqrt(sums.decays);
      const double total = std::abs(scale_ * sums.ones / root);
      by = std::isnan(total)
               ? kNaN
               : scale_ / root / std::clamp(total, 1.0, kMostRetNet);
    }
  }
  const bool divided =
      options_.normaliser() == v1::LinearOptions::NORMALISER_SUM ||
      options_.normaliser() == v1::LinearOptions::NORMALISER_RETNET;
  // The divisor's own error moves the whole row.
  const double doubt =
      divided && sums.ones != 0 ? sums.ones_size / std::abs(sums.ones) : 0;
  for (size_t c = 0; c < output.size(); ++c) {
    output[c] *= by;
    size[c] = size[c] * std::abs(by) + doubt * std::abs(output[c]);
  }
}

void LinearRows::Row(int64_t i, absl::Span<double> output,
                     absl::Span<double> size) {
  std::fill(output.begin(), output.end(), 0.0);
  std::fill(size.begin(), size.end(), 0.0);
  const auto channels = static_cast<size_t>(in_.value.columns());
  std::vector<Sums> sums(in_.query.heads());
  const std::vector<int64_t>& order = visibility_.order();
  for (size_t rank = 0; rank < order.size(); ++rank) {
    if (!Sees(i, order[rank])) continue;
    const int64_t key = sequence_.first_key + order[rank];
    double weight = 0, decay = 1;
    for (int64_t g = 0; g < in_.key.heads(); ++g) {
      if (g == 0 || heads_differ_) {
        weight = Turn(g, i, rank);
        decay = Decay(g);
      }
      const SizedRow k(in_.key.Row(sequence_.batch, g, key));
      const auto v = in_.value.Row(sequence_.batch, g, key);
      for (int64_t h = g * group_; h < (g + 1) * group_; ++h) {
        const SizedRow q(
            in_.query.Row(sequence_.batch, h, sequence_.first_query + i));
        const Product product = product_.Multiply(q, k);
        const double dot =
            weight * (std::isfinite(product.size) ? product.value : kNaN);
        const double dot_size =
            weight * product.size + kUnderflow * Sum(q.size) * Sum(k.size);
        sums[h].ones += dot;
        sums[h].ones_size += dot_size;
        sums[h].decays += decay;
        for (size_t c = 0; c < channels; ++c) {
          // 0 * v: NaN from every v that is not finite, whatever its weight.
          output[h * channels + c] += dot * v[c] + 0 * v[c];
          size[h * channels + c] += dot_size * std::abs(v[c]);
        }
      }
    }
  }
  for (int64_t h = 0; h < in_.query.heads(); ++h) {
    Finish(sums[h], output.subspan(h * channels, channels),
           size.subspan(h * channels, channels));
  }
}

}  // namespace attnd::client::resolved
