#include "client/resolved/bias.h"

#include <algorithm>
#include <cmath>

#include "client/resolved/generator.h"

namespace attnd::client::resolved {
namespace {

// On the logarithm that FIRE divides by.
constexpr double kFireEpsilon = 1e-6;

// Row of a head in a table of `width` columns for all heads or for one.
template <typename Field>
double Entry(const Field& table, int width, int head, int column) {
  return table[(table.size() == width ? 0 : head * width) + column];
}

// One per head, or one for all.
template <typename Field>
double PerHead(const Field& values, int head) {
  return values[values.size() == 1 ? 0 : head];
}

double T5(const v1::T5Buckets& t5, int head, DoubleDouble lag) {
  const int all = t5.has_buckets() ? t5.buckets() : 32;
  const double far = t5.has_max_distance() ? t5.max_distance() : 128;
  const int buckets = t5.bidirectional() ? all / 2 : all;
  const int exact = buckets / 2;
  const bool future = lag.high < 0;
  int bucket = 0;
  if (!future || t5.bidirectional()) {
    const DoubleDouble n = Magnitude(lag);
    if (Floor(n) < exact) {
      bucket = static_cast<int>(Floor(n));
    } else {
      const double share = std::log(n.high / exact) / std::log(far / exact);
      bucket = exact + static_cast<int>(std::min<double>(
                           std::floor(share * (buckets - exact)), all));
    }
    bucket = std::min(bucket, buckets - 1);
    // Less than one unit is no lag, on both sides.
    if (future && bucket > 0) bucket += buckets;
  }
  return Entry(t5.table(), all, head, bucket);
}

double Hstu(const v1::HstuBuckets& hstu, int head, DoubleDouble lag) {
  const int last = hstu.has_max_bucket() ? hstu.max_bucket() : 128;
  const double step = hstu.has_log_step() ? hstu.log_step() : 0.301;
  const double distance = std::max(1.0, std::abs(lag.high));
  const double bucket = std::floor(std::log(distance) / step);
  return Entry(hstu.table(), last + 1, head,
               static_cast<int>(std::min<double>(bucket, last)));
}

double Kerple(const v1::Kerple& kerple, int head, double lag) {
  const double r1 = PerHead(kerple.r1(), head);
  const double r2 = PerHead(kerple.r2(), head);
  const double distance = std::abs(lag);
  return kerple.form() == v1::Kerple::FORM_POWER
             ? -r1 * std::pow(distance, r2)
             : -r1 * std::log1p(r2 * distance);
}

void AddFire(const v1::Fire& fire, int head, double lag, double elapsed,
             Bias& bias) {
  const double c = fire.has_c() ? fire.c() : 0.1;
  const double threshold = fire.has_threshold() ? fire.threshold() : 512;
  const double u =
      std::log1p(c * std::abs(lag)) /
      (std::log1p(c * std::max(elapsed, threshold)) + kFireEpsilon);
  bias.Add(PerHead(fire.b2(), head));
  for (int n = 0; n < fire.hidden(); ++n) {
    const double w1 = fire.w1(n), b1 = fire.b1(n);
    const double w2 =
        fire.w2((fire.b2_size() == 1 ? 0 : head) * fire.hidden() + n);
    if (w1 * u + b1 <= 0) continue;
    bias.Add(w2 * (w1 * u + b1),
             std::abs(w2) * (std::abs(w1 * u) + std::abs(b1)));
  }
}

// cos x - 1 = -2 sin^2(x/2).
double Sandwich(const v1::Sandwich& sandwich, int head, int heads,
                DoubleDouble lag) {
  const int dim = sandwich.has_dim() ? sandwich.dim() : 128;
  const double base = sandwich.has_base() ? sandwich.base() : 10000;
  double sum = 0;
  for (int i = 1; i <= dim / 2; ++i) {
    const DoubleDouble frequency = {std::pow(base, -2.0 * i / dim), 0};
    const double turns = Fraction(frequency * lag / kTwoPi);
    const double sine = std::sin(kTwoPi.high * turns / 2);
    sum -= 2 * sine * sine;
  }
  return sum / (8.0 * (head + 1) / heads);
}

void AddTable(const v1::LagTable& table, int head, double lag, Bias& bias) {
  const double at = table.absolute_lag() ? std::abs(lag) : lag;
  const int knots = table.lags_size();
  const auto value = [&](int k) {
    return Entry(table.values(), knots, head, k);
  };
  const int right = static_cast<int>(
      std::upper_bound(table.lags().begin(), table.lags().end(), at) -
      table.lags().begin());
  if (right == 0 || right == knots) {
    bias.Add(value(right == 0 ? 0 : knots - 1));
    return;
  }
  const double left_value = value(right - 1);
  const double share = (at - table.lags(right - 1)) /
                       (table.lags(right) - table.lags(right - 1));
  const double rise = share * (value(right) - left_value);
  bias.Add(left_value + rise, std::abs(left_value) + std::abs(rise));
}

double Softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

template <typename Field>
double Gate(const Field& direction, absl::Span<const double> vector) {
  if (direction.empty()) return 0;
  double dot = 0;
  for (size_t c = 0; c < vector.size(); ++c) {
    dot += direction[static_cast<int>(c)] * vector[c];
  }
  return Softplus(dot / std::sqrt(static_cast<double>(vector.size())));
}

}  // namespace

Bias LagBias(const v1::ResolvedEncoding& encoding, int head, int heads,
             DoubleDouble lag, double elapsed) {
  Bias bias;
  if (!encoding.alibi_slopes().empty()) {
    bias.Add(-encoding.alibi_slopes(head) * std::abs(lag.high));
  }
  for (const v1::Bias& term : encoding.definition().biases()) {
    switch (term.kind_case()) {
      case v1::Bias::kT5Buckets:
        bias.Add(T5(term.t5_buckets(), head, lag));
        break;
      case v1::Bias::kHstuBuckets:
        bias.Add(Hstu(term.hstu_buckets(), head, lag));
        break;
      case v1::Bias::kKerple:
        bias.Add(Kerple(term.kerple(), head, lag.high));
        break;
      case v1::Bias::kFire:
        AddFire(term.fire(), head, lag.high, elapsed, bias);
        break;
      case v1::Bias::kSandwich:
        bias.Add(Sandwich(term.sandwich(), head, heads, lag));
        break;
      case v1::Bias::kLagTable:
        AddTable(term.lag_table(), head, lag.high, bias);
        break;
      default:  // alibi_slopes, EndpointBias, gates
        break;
    }
  }
  return bias;
}

Bias EndpointBias(const v1::Encoding& definition, int head, double distance,
                  absl::Span<const double> query,
                  absl::Span<const double> key) {
  Bias bias;
  for (const v1::Bias& term : definition.biases()) {
    if (!term.has_grape_additive()) continue;
    const v1::GrapeAdditive& grape = term.grape_additive();
    bias.Add(-distance * PerHead(grape.slopes(), head) *
             (Gate(grape.query_direction(), query) +
              Gate(grape.key_direction(), key)));
  }
  return bias;
}

GateWeight GateWeightOf(const v1::Encoding& definition) {
  GateWeight weight;
  for (const v1::Bias& term : definition.biases()) {
    bool per_unit = false;
    if (term.has_cumulative_gate()) {
      per_unit = term.cumulative_gate().per_unit();
    } else if (term.has_path_integral()) {
      per_unit = !term.path_integral().has_quadrature() ||
                 term.path_integral().quadrature();
    } else {
      continue;
    }
    (per_unit ? weight.per_unit : weight.per_key) += 1;
  }
  return weight;
}

}  // namespace attnd::client::resolved
