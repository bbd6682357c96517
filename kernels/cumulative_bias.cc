#include "kernels/cumulative_bias.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <variant>

#include "absl/strings/str_cat.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cumulative_bias.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// row[c] -= |(anchor_high + anchor_low) - (high[c] + low[c])|.
void SubtractDistances(double anchor_high, double anchor_low,
                       const double* HWY_RESTRICT high,
                       const double* HWY_RESTRICT low, int64_t begin,
                       int64_t end, float* HWY_RESTRICT row) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df32;
  const int64_t n = hn::Lanes(d);
  const auto a = hn::Set(d, anchor_high), b = hn::Set(d, anchor_low);
  int64_t c = begin;
  for (; c + n <= end; c += n) {
    const auto difference = hn::Add(hn::Sub(a, hn::LoadU(d, high + c)),
                                    hn::Sub(b, hn::LoadU(d, low + c)));
    const auto size = hn::DemoteTo(df32, hn::Abs(difference));
    hn::StoreU(hn::Sub(hn::LoadU(df32, row + c), size), df32, row + c);
  }
  for (; c < end; ++c) {
    row[c] -= static_cast<float>(
        std::fabs((anchor_high - high[c]) + (anchor_low - low[c])));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(SubtractDistances);

float Gate(const TensorRef& gates, int64_t batch, int64_t head, int64_t row) {
  float gate;
  std::memcpy(&gate, gates.Row(batch, head, row), sizeof(gate));
  return gate;
}

// past[i] = number of keys with t <= the i-th query's; both in time order.
template <typename T>
void CountPast(const std::vector<T>& queries, const std::vector<T>& keys,
               std::vector<int32_t>& past) {
  past.resize(queries.size());
  size_t count = 0;
  for (size_t i = 0; i < queries.size(); ++i) {
    while (count < keys.size() && keys[count] <= queries[i]) ++count;
    past[i] = static_cast<int32_t>(count);
  }
}

// Ticks from the key before, in double.
double GapBefore(const ItemGeometry& item, int64_t j) {
  if (j == 0) return 0;
  return item.exact
             ? static_cast<double>(item.key_ticks[j] - item.key_ticks[j - 1])
             : item.key_real[j] - item.key_real[j - 1];
}

}  // namespace

GateWeights SumGateWeights(const std::vector<BiasTerm>& terms,
                           const TickRatio& ratio) {
  GateWeights weights;
  for (const BiasTerm& term : terms) {
    bool per_unit = false;
    if (const auto* gate = std::get_if<CumulativeGateTerm>(&term)) {
      per_unit = gate->per_unit;
    } else if (const auto* path = std::get_if<PathIntegralTerm>(&term)) {
      per_unit = path->quadrature;
    } else {
      continue;
    }
    (per_unit ? weights.per_tick : weights.per_key) +=
        per_unit ? ratio.units_per_tick() : 1.0;
  }
  return weights;
}

absl::Status CheckGates(const TensorRef& gates, const ItemGeometry& item,
                        int64_t batch) {
  int64_t count = 0;
  std::string first;
  for (int64_t head = 0; head < gates.shape().heads; ++head) {
    for (int64_t j = 0; j < item.key_rows; ++j) {
      const int64_t row = item.KeyRow(j);
      const float gate = Gate(gates, batch, head, row);
      if (std::isfinite(gate) && gate <= 0) continue;
      if (count++ == 0) {
        first = absl::StrCat("element [", batch, ",", head, ",", row, "] is ",
                             gate);
      }
    }
  }
  if (count == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("gates: ", first,
                   ", expected finite and <= 0 (logarithms of "
                   "gates) at every valid key; ",
                   count, " such in this item"));
}

void CumulativeBias::Start(const ItemGeometry& item, const GateWeights& weights,
                           const TensorRef& gates, int64_t batch,
                           int64_t head) {
  item_ = &item;
  if (item.exact) {
    CountPast(item.query_ticks, item.key_ticks, past_);
  } else {
    CountPast(item.query_real, item.key_real, past_);
  }
  high_.assign(item.key_rows + 1, 0);
  low_.assign(item.key_rows + 1, 0);
  for (int64_t j = 0; j < item.key_rows; ++j) {
    const double gate =
        Gate(gates, batch, head, item.KeyRow(j)) *
        (weights.per_key + weights.per_tick * GapBefore(item, j));
    // high + low + gate, exactly (Knuth's two-sum), renormalised.
    const double sum = high_[j] + gate;
    const double part = sum - high_[j];
    const double error = (high_[j] - (sum - part)) + (gate - part);
    const double rest = low_[j] + error;
    high_[j + 1] = sum + rest;
    low_[j + 1] = rest - (high_[j + 1] - sum);
  }
}

int64_t CumulativeBias::Anchor(int64_t i, int64_t past) const {
  const int64_t begin = item_->begin[i], end = item_->end[i];
  if (end <= past) return end;
  return begin >= past ? begin + 1 : past;
}

double CumulativeBias::Exact(int64_t i, int64_t j) const {
  return -std::fabs(Difference(PastKeys(i), j + 1));
}

double CumulativeBias::Reference(int64_t i) const {
  if (item_->begin[i] >= item_->end[i]) return 0;
  const int64_t past = PastKeys(i);
  return -std::fabs(Difference(past, Anchor(i, past)));
}

void CumulativeBias::AddToRow(int64_t i, int64_t first, int64_t begin,
                              int64_t end, float* row) const {
  if (begin >= end) return;
  const int64_t anchor = Anchor(i, PastKeys(i));
  HWY_DYNAMIC_DISPATCH(SubtractDistances)
  (high_[anchor], low_[anchor], high_.data() + first + 1,
   low_.data() + first + 1, begin, end, row);
}

bool CumulativeBias::Split(int64_t i, int64_t rows, int64_t first, int64_t last,
                           float* column, float* row) const {
  const bool past = last <= PastKeys(i);
  const bool future = first >= PastKeys(i + rows - 1);
  if (!past && !future) return false;
  // The border of the tile that faces the queries.
  const int64_t border = past ? last : first + 1;
  const double sign = past ? 1 : -1;
  for (int64_t j = first; j < last; ++j) {
    column[j - first] = static_cast<float>(sign * Difference(border, j + 1));
  }
  for (int64_t r = i; r < i + rows; ++r) {
    const bool empty = item_->begin[r] >= item_->end[r];
    row[r - i] = empty ? 0.0f
                       : static_cast<float>(
                             sign * Difference(Anchor(r, PastKeys(r)), border));
  }
  return true;
}

int64_t CumulativeBias::scratch_bytes() const {
  return static_cast<int64_t>(sizeof(double) *
                                  (high_.capacity() + low_.capacity()) +
                              sizeof(int32_t) * past_.capacity());
}

}  // namespace attnd
#endif  // HWY_ONCE
