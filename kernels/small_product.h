// Matrix products too small for the library: where its fixed cost and padded
// shapes weigh more than its speed, and where rows need only some columns.
#ifndef ATTND_KERNELS_SMALL_PRODUCT_H_
#define ATTND_KERNELS_SMALL_PRODUCT_H_

#include <cstdint>

namespace attnd {

// Rows that a product takes together.
inline constexpr int64_t kProductRows = 8;
// Columns come in multiples of this.
inline constexpr int64_t kProductColumns = 16;

// c[r, j] (+)= sum_k a[r, k] b[k, j] for rows [0, rows), k in [0, depth) and
// columns [0, columns), a multiple of 16. Row strides in floats; nothing
// overlaps; any alignment.
struct SmallProduct {
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  int64_t rows = 0, depth = 0, columns = 0;
  bool accumulate = false;
  // Runs of 8 terms, of 16 beyond a depth of 64, are summed on their own first:
  // where nothing cancels, the error grows with that and the number of runs
  // instead of with the depth. Costs about a third.
  bool exact = false;
};
void Multiply(const SmallProduct& product);

// The same with b transposed, one row per column: c[r, j] = sum_k a[r, k] b[j,
// k], for products of so few rows that packing b would cost more than reading
// it. Any number of columns; always exact, never accumulates; NaN where a sum
// is not finite.
void MultiplyTransposed(const SmallProduct& product);

}  // namespace attnd

#endif  // ATTND_KERNELS_SMALL_PRODUCT_H_
