#include "client/resolved/gates.h"

#include <algorithm>

namespace attnd::client::resolved {

Gates::Gates(const Times& times, const Sequence& sequence, const Units& units,
             const std::vector<int64_t>& order, const GateWeight& weight,
             const Array& gates)
    : times_(times), sequence_(sequence), order_(order) {
  if (weight.per_key == 0 && weight.per_unit == 0) return;
  rank_.resize(sequence.keys);
  for (size_t n = 0; n < order.size(); ++n) {
    rank_[order[n]] = static_cast<int64_t>(n);
  }
  for (int64_t head = 0; head < gates.heads(); ++head) {
    std::vector<long double> sums = {0};
    for (size_t n = 0; n < order.size(); ++n) {
      const double gap =
          n == 0 ? 0
                 : units.In(times.KeyMinusKey(sequence, order[n], order[n - 1]))
                       .high;
      const double gate =
          gates.At(sequence.batch, head, sequence.first_key + order[n], 0);
      sums.push_back(sums.back() +
                     static_cast<long double>(gate) *
                         (weight.per_key + weight.per_unit * gap));
    }
    sums_.push_back(std::move(sums));
  }
}

double Gates::Between(int64_t head, int64_t i, int64_t j) const {
  const auto place =
      std::partition_point(order_.begin(), order_.end(), [&](int64_t key) {
        const Lag lag = times_.QueryMinusKey(sequence_, i, key);
        return times_.exact() ? lag.ticks >= 0 : lag.real >= 0;
      });
  const int64_t until = place - order_.begin();
  const int64_t after = rank_[j] + 1;
  const std::vector<long double>& sums = sums_[head];
  return static_cast<double>(after <= until ? sums[until] - sums[after]
                                            : sums[after] - sums[until]);
}

}  // namespace attnd::client::resolved
