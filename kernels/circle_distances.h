// Squared distances between times as points on many circles: with c circles,
// 2 sum_i (1 - cos w_i (t - s)), without ever subtracting from 1.
#ifndef ATTND_KERNELS_CIRCLE_DISTANCES_H_
#define ATTND_KERNELS_CIRCLE_DISTANCES_H_

#include <cstdint>

namespace attnd {

// Rows that share the loads of a key, and keys of a block.
inline constexpr int64_t kCircleRows = 6;
inline constexpr int64_t kCircleKeys = 32;

// plane[r * stride + j] = |row r - key j|^2 for kCircleRows rows and the keys
// [begin, end) of a block, and some around them up to a multiple of 32. A row
// holds the cosines of all circles, then the sines; a block of keys holds the
// cosines of its kCircleKeys keys on the first circle, on the next, ..., then
// the sines. Circles of slow frequencies come first: their squares are small,
// and sums lose the least. Error about 1.5e-7 of the sum beside that of the
// points.
void CircleDistances(const float* rows, const float* keys, int64_t circles,
                     int64_t begin, int64_t end, int64_t stride, float* plane);

}  // namespace attnd

#endif  // ATTND_KERNELS_CIRCLE_DISTANCES_H_
