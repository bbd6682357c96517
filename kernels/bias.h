// Biases on real time, added to tiles of logits after the products.
//
// Rule N7: lags are subtracted as integers, and every row is taken relative to
// the lag of its nearest visible key. A row's largest bias is then exactly 0,
// however far in the past its keys are; what was taken off comes back in lse
// and scores.
#ifndef ATTND_KERNELS_BIAS_H_
#define ATTND_KERNELS_BIAS_H_

#include <cstdint>

#include "kernels/tensor.h"
#include "kernels/visibility.h"

namespace attnd {

// -slope * |D| for one query head of one item.
struct LinearBias {
  const ItemGeometry* item = nullptr;
  double per_tick = 0;  // -slope in logits per tick (or unit of the real axis)

  // Bias of the i-th query's nearest visible key: the row's reference. 0 when
  // it sees none.
  double Reference(int64_t i) const;

  // row[c] += bias(i, first + c) - Reference(i) for c in [begin, end); exact
  // lags per element.
  void AddToRow(int64_t i, int64_t first, int64_t begin, int64_t end,
                float* row) const;

  // When all keys [first, last) lie on one side of all queries [i, i + rows),
  // bias - Reference splits into column[c] + row[r], both <= 0 and without
  // cancellation (rule N4). Returns whether it does, and fills both if so.
  bool Split(int64_t i, int64_t rows, int64_t first, int64_t last,
             float* column, float* row) const;
};

// row[c] += bias tensor at (batch, head, query row, key row) for the keys first
// + c of the item's order, c in [begin, end); a bias of -inf hides whatever the
// logit is. Extents of 1 are broadcast.
void AddTensorBias(const TensorRef& bias, const ItemGeometry& item,
                   int64_t batch, int64_t head, int64_t query_row,
                   int64_t first, int64_t begin, int64_t end, float* row);

// Element of a broadcast bias tensor.
float BiasElement(const TensorRef& bias, int64_t batch, int64_t head,
                  int64_t query_row, int64_t key_row);

}  // namespace attnd

#endif  // ATTND_KERNELS_BIAS_H_
