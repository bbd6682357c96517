// Sums of a request's gates between keys and queries, for cumulative biases.
#ifndef ATTND_CLIENT_RESOLVED_GATES_H_
#define ATTND_CLIENT_RESOLVED_GATES_H_

#include <cstdint>
#include <vector>

#include "client/resolved/arrays.h"
#include "client/resolved/bias.h"
#include "client/resolved/pair.h"
#include "client/resolved/times.h"

namespace attnd::client::resolved {

// One sequence. Borrows the times.
class Gates {
 public:
  // `order`: valid keys in (time, index) order; gates [B,Hq,Lk].
  Gates(const Times& times, const Sequence& sequence, const Units& units,
        const std::vector<int64_t>& order, const GateWeight& weight,
        const Array& gates);

  bool any() const { return !sums_.empty(); }
  // Gates of the keys later in order than the j-th, up to the query's time; of
  // a future key, those after the query's time up to it.
  double Between(int64_t head, int64_t i, int64_t j) const;

 private:
  const Times& times_;
  const Sequence sequence_;
  const std::vector<int64_t> order_;
  std::vector<int64_t> rank_;
  // Per head, of the first n gates in order.
  std::vector<std::vector<long double>> sums_;
};

}  // namespace attnd::client::resolved

#endif  // ATTND_CLIENT_RESOLVED_GATES_H_
