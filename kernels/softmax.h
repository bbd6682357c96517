// Online softmax over tiles of logits.
//
// Source of the recurrence: Milakov & Gimelshein 2018, algorithm 3; the rescale
// happens only when a maximum rises by more than kRescaleStep.
#ifndef ATTND_KERNELS_SOFTMAX_H_
#define ATTND_KERNELS_SOFTMAX_H_

#include <cstdint>

namespace attnd {

// Partial sums kept per row until the end: half are sums, the others what their
// additions lost; together they are the row's sum.
inline constexpr int kSumLanes = 32;

// exp(logit - max) may reach e^5.5 before a rescale: far from overflow, and
// most tiles then rescale nothing.
inline constexpr float kRescaleStep = 5.5f;

// exp is computed to kExpRelativeError for arguments in [-87.3, 5.5] (to half
// of it above -17); below, results are exactly 0, never subnormal, provided the
// thread flushes denormals (float_mode.h); NaN stays NaN.
inline constexpr double kExpRelativeError = 4.5e-7;

// One tile of logits and the running state of its rows. All pointers borrowed.
struct SoftmaxTile {
  float* logits = nullptr;  // [rows, stride], 64-byte aligned; stride % 16 == 0
  int rows = 0;
  int stride = 0;  // keys of the tile
  // Columns that anybody reads afterwards, a multiple of 16; 0 = stride.
  int columns = 0;
  // Visible columns [begin[r], end[r]) of each row, within those; null = all.
  const int32_t* begin = nullptr;
  const int32_t* end = nullptr;
  // Added to the logits on the fly: column_bias[c] + row_bias[r]; null = none.
  const float* column_bias = nullptr;  // [stride]
  const float* row_bias = nullptr;     // [rows]
  // State: max starts at -inf, sums [rows, kSumLanes] at 0.
  float* max = nullptr;
  float* sums = nullptr;
  // With them, sum of exp(x) x over the same x = logit + bias - max, for the
  // entropy: [rows, kSumLanes], start at 0; null = not wanted.
  float* moments = nullptr;
  // With it the exponentials go there, rounded to bf16, instead of into the
  // logits: [rows, stride], 64-byte aligned; null = into the logits.
  uint16_t* halves = nullptr;
  // Out: factor by which earlier output of the row must be multiplied.
  float* rescale = nullptr;
};

// Replaces visible logits by exp(logit + bias - max), hidden ones by exactly 0,
// and updates the state. Returns whether any rescale factor differs from 1. A
// row that sees nothing keeps its state and gets factor 1. A NaN logit makes
// the row's sum NaN. Does not allocate; thread-safe for distinct rows.
bool UpdateSoftmax(const SoftmaxTile& tile);

// Takes a logit that belongs to no key into the state of one row: its sum and,
// if that rises, its maximum. Returns the factor by which earlier output of the
// row must be multiplied. `moments` may be null. -inf changes nothing.
float AddSink(float logit, float* max, float* sums, float* moments);

// sums[c] += weight of column c, over the tile's rows, with the state that
// UpdateSoftmax left and share[r] = 1 / sum of the row (0 if that is 0).
void AddWeights(const SoftmaxTile& tile, const float* share, float* sums);

// Sum of the lanes of one row.
float SumLanes(const float* lanes);

// rows[r, 0..dim) *= factor[r] for rows with factor != 1; row stride dim.
void ScaleRows(float* values, int rows, int64_t dim, const float* factor);

// out[c] = values[c] / sum of the row's lanes; zeros when that sum is 0.
// Returns the sum.
float NormaliseRow(const float* values, int64_t dim, const float* sums,
                   float* out);

// NormaliseRow of rows that follow each other in `values`, each into out + r *
// stride. False when some sum is 0 or NaN.
bool NormaliseRows(const float* values, int rows, int64_t value_stride,
                   int64_t dim, const float* sums, float* out, int64_t stride);

// weights[j] = exp(logits[j] - max) / sum, with the max and sum of
// UpdateSoftmax: through one rounded lse, rows of large logits would not sum
// to 1. -inf logits give 0. In place allowed.
void WeightsFromLogits(const float* logits, int64_t count, float max, float sum,
                       float* weights);

// Name of the instruction set that dispatch chose, for example "AVX3".
const char* VectorTarget();

}  // namespace attnd

#endif  // ATTND_KERNELS_SOFTMAX_H_
