// Biases that add up the request's gates between key and query: FoX (Lin et al.
// 2025) and path integrals. bias = c(query) - c(key), c the running sum of
// weighted gates over an item's keys in (time, index) order; c of a query is
// that of its last key with t <= t_query.
#ifndef ATTND_KERNELS_CUMULATIVE_BIAS_H_
#define ATTND_KERNELS_CUMULATIVE_BIAS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/clock.h"
#include "kernels/encoding_spec.h"
#include "kernels/tensor.h"
#include "kernels/visibility.h"

namespace attnd {

// Weight of a key's gate: per_key + per_tick * (time since the key before; 0
// for the first).
struct GateWeights {
  double per_key = 0;
  double per_tick = 0;

  bool any() const { return per_key != 0 || per_tick != 0; }
  friend bool operator==(const GateWeights&, const GateWeights&) = default;
};

// Sum over the cumulative terms of the list; the others are ignored.
GateWeights SumGateWeights(const std::vector<BiasTerm>& terms,
                           const TickRatio& ratio);

// Gates [B,Hq,Lk,1] of a batch item must be finite and <= 0 at valid keys.
// INVALID_ARGUMENT with the first offending element and how many there are.
absl::Status CheckGates(const TensorRef& gates, const ItemGeometry& item,
                        int64_t batch);

// The sums of one query head of one item. Sums are kept in twice the precision
// of a double: a large gate does not blur the small ones after it.
class CumulativeBias {
 public:
  CumulativeBias() = default;
  // O(key_rows); reuses memory. Gates [B,Hq,Lk,1] f32 that CheckGates accepts.
  // The item must live and stay.
  void Start(const ItemGeometry& item, const GateWeights& weights,
             const TensorRef& gates, int64_t batch, int64_t head);

  // Bias of the i-th query and j-th key of the item's order. Future keys
  // (two-sided rule) count the gates from the query to the key.
  double Exact(int64_t i, int64_t j) const;

  // As LinearBias (bias.h): the bias of the i-th query's nearest visible key,
  // 0 without one; then all others relative to it, <= 0.
  double Reference(int64_t i) const;
  // row[c] += bias(i, first + c) - Reference(i) for c in [begin, end), within
  // the rounding of one f32.
  void AddToRow(int64_t i, int64_t first, int64_t begin, int64_t end,
                float* row) const;
  // column[c] + row[r] = bias - Reference when all keys [first, last) lie on
  // one side of the queries [i, i + rows).
  bool Split(int64_t i, int64_t rows, int64_t first, int64_t last,
             float* column, float* row) const;

  // Largest bias of queries from the i-th on and keys up to the j-th, where all
  // these keys are past: for skipping tiles.
  double Supremum(int64_t i, int64_t j) const { return Exact(i, j); }

  int64_t scratch_bytes() const;

 private:
  int64_t PastKeys(int64_t i) const { return past_[i]; }
  // Index into the sums that a row's biases are taken relative to.
  int64_t Anchor(int64_t i, int64_t past) const;
  // sum[a] - sum[b].
  double Difference(int64_t a, int64_t b) const {
    return (high_[a] - high_[b]) + (low_[a] - low_[b]);
  }

  const ItemGeometry* item_ = nullptr;
  // Sum of the first n weighted gates, n = 0 .. key_rows: high + low.
  std::vector<double> high_, low_;
  std::vector<int32_t> past_;  // per query, keys with t <= t_query
};

}  // namespace attnd

#endif  // ATTND_KERNELS_CUMULATIVE_BIAS_H_
