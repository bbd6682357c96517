// All biases of one query head on one tile: ALiBi, cumulative gates, functions
// of the lag, GRAPE additive, and the request's bias tensor.
#ifndef ATTND_KERNELS_TILE_BIAS_H_
#define ATTND_KERNELS_TILE_BIAS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/bias.h"
#include "kernels/cumulative_bias.h"
#include "kernels/gemm.h"
#include "kernels/lag_bias.h"
#include "kernels/plan.h"

namespace attnd {

// ALiBi and gates are taken relative to each row's nearest visible key (bias.h)
// and, away from the diagonal, as one column and one row vector that the
// softmax adds on the fly; everything else is added to the logits in place.
class TileBias {
 public:
  // Queries [first, first + rows) of an item's order under query head `head`.
  void Start(const Plan& plan, int64_t item, int64_t head, int64_t first,
             int64_t rows);

  bool empty() const { return !any_; }

  // Adds to logits [rows, keys] of the rows from `row` on (counted from Start's
  // first) against keys [key, key + keys), at columns [begin[r], end[r]).
  // Returns true if column() and row() must be added besides.
  bool Apply(int64_t row, int64_t rows, int64_t key, int64_t keys,
             const int32_t* begin, const int32_t* end, float* logits);
  const float* column() const { return column_; }  // [keys]
  const float* row() const { return row_; }        // [rows]

  // Sums of the gates of the head; null without gates.
  const CumulativeBias* gates() const { return has_gates_ ? &gates_ : nullptr; }

  // What was taken off the i-th query's logits.
  double Reference(int64_t i) const;

  int64_t scratch_bytes() const;

 private:
  bool Split(int64_t i, int64_t rows, int64_t key, int64_t last);
  void AddInPlace(int64_t i, int64_t key, int64_t begin, int64_t end,
                  bool split, float* row);
  void KeyFactors(int64_t key, int64_t keys);

  std::shared_ptr<const void> identity_;  // of the plan
  const Plan* plan_ = nullptr;
  const ItemGeometry* item_ = nullptr;
  const Encoder* encoder_ = nullptr;
  int64_t number_ = 0, batch_ = 0;  // of the item, of its tensors
  int64_t head_ = 0, first_ = 0, all_rows_ = 0;
  bool any_ = false, has_tensor_ = false, has_gates_ = false;
  LinearBias linear_;
  CumulativeBias gates_;
  LagTile lags_;
  std::vector<double> query_factors_, key_factors_;
  std::vector<float> raw_;
  alignas(64) float row_[kMaxTileRows];
  alignas(64) float row_part_[kMaxTileRows];
  alignas(64) float column_[kMaxTileKeys];
  alignas(64) float column_part_[kMaxTileKeys];
};

}  // namespace attnd

#endif  // ATTND_KERNELS_TILE_BIAS_H_
