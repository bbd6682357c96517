#include "kernels/endpoint_bias.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/bias_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/endpoint_bias.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/lag-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

template <typename T>
void AddWeightedLags(T query, const T* HWY_RESTRICT key, double query_factor,
                     const double* HWY_RESTRICT key_factors, int64_t begin,
                     int64_t end, float* HWY_RESTRICT row) {
  const Real d;
  const hn::Rebind<float, Real> df32;
  const int64_t n = hn::Lanes(d);
  const auto by = hn::Set(d, query_factor), high = hn::Set(d, 1e38);
  int64_t c = begin;
  for (; c + n <= end; c += n) {
    const auto size = hn::Mul(hn::Abs(Lags(query, key + c)),
                              hn::Add(by, hn::LoadU(d, key_factors + c)));
    hn::StoreU(hn::Sub(hn::LoadU(df32, row + c),
                       hn::DemoteTo(df32, hn::Min(size, high))),
               df32, row + c);
  }
  for (; c < end; ++c) {
    const double lag = static_cast<double>(query - key[c]);
    row[c] -= static_cast<float>(
        std::min(std::fabs(lag) * (query_factor + key_factors[c]), 1e38));
  }
}

void AddWeightedTicks(int64_t query, const int64_t* key, double query_factor,
                      const double* key_factors, int64_t begin, int64_t end,
                      float* row) {
  AddWeightedLags(query, key, query_factor, key_factors, begin, end, row);
}
void AddWeightedReal(double query, const double* key, double query_factor,
                     const double* key_factors, int64_t begin, int64_t end,
                     float* row) {
  AddWeightedLags(query, key, query_factor, key_factors, begin, end, row);
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(AddWeightedTicks);
HWY_EXPORT(AddWeightedReal);

// 0 without a direction.
double Gate(const std::vector<float>& direction, const float* x) {
  if (direction.empty()) return 0;
  double dot = 0;
  for (size_t c = 0; c < direction.size(); ++c) {
    dot += double{direction[c]} * double{x[c]};
  }
  const double z = dot / std::sqrt(static_cast<double>(direction.size()));
  return std::max(z, 0.0) + std::log1p(std::exp(-std::fabs(z)));
}

}  // namespace

absl::StatusOr<EndpointBias> EndpointBias::Compile(
    const std::vector<BiasTerm>& terms, int query_heads, int head_dim,
    const TickRatio& ratio) {
  EndpointBias bias;
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto* grape = std::get_if<GrapeAdditiveTerm>(&terms[i]);
    if (grape == nullptr) continue;
    const std::string path = absl::StrCat("biases[", i, "]");
    absl::Status status = CheckBiasTerm(terms[i], path);
    if (status.ok()) {
      status = CheckBiasSizes(terms[i], query_heads, head_dim, path);
    }
    if (!status.ok()) return status;
    Term term;
    term.query_direction = grape->query_direction;
    term.key_direction = grape->key_direction;
    for (int head = 0; head < query_heads; ++head) {
      term.slopes.push_back(
          grape->slopes[grape->slopes.size() == 1 ? 0 : head] *
          ratio.units_per_tick());
    }
    bias.terms_.push_back(std::move(term));
  }
  return bias;
}

double EndpointBias::QueryFactor(int head, const float* query) const {
  double sum = 0;
  for (const Term& term : terms_) {
    sum += term.slopes[head] * Gate(term.query_direction, query);
  }
  return sum;
}

double EndpointBias::KeyFactor(int head, const float* key) const {
  double sum = 0;
  for (const Term& term : terms_) {
    sum += term.slopes[head] * Gate(term.key_direction, key);
  }
  return sum;
}

void AddEndpointBias(const ItemGeometry& item, double query_factor,
                     const double* key_factors, int64_t i, int64_t first,
                     int64_t begin, int64_t end, float* row) {
  if (begin >= end) return;
  if (item.exact) {
    HWY_DYNAMIC_DISPATCH(AddWeightedTicks)
    (item.query_ticks[i], item.key_ticks.data() + first, query_factor,
     key_factors, begin, end, row);
  } else {
    HWY_DYNAMIC_DISPATCH(AddWeightedReal)
    (item.query_real[i], item.key_real.data() + first, query_factor,
     key_factors, begin, end, row);
  }
}

}  // namespace attnd
#endif  // HWY_ONCE
