// Squared distances between times as points on many circles: with c circles,
// 2 sum_i (1 - cos w_i (t - s)).
#ifndef ATTND_KERNELS_CIRCLE_DISTANCES_H_
#define ATTND_KERNELS_CIRCLE_DISTANCES_H_

#include <cstdint>

namespace attnd {

// Rows that share the loads of a key, and keys of a block.
inline constexpr int64_t kCircleRows = 6;
inline constexpr int64_t kCircleKeys = 32;

// plane[r * stride + j] = |row r - key j|^2 for kCircleRows rows and the keys
// [begin, end) of a block, and some around them up to a multiple of 32. A block
// of keys holds the cosines of its kCircleKeys keys on the first circle, on the
// next, ..., then the sines; rows, kCircleRows at a time, likewise. Circles of
// slow frequencies come first: their squares are small, and sums lose the
// least. Error about 1.5e-7 of the sum beside that of the points.
//
// `near` promises that all that matter are less than `circles`. It saves
// looking: what is as far as that is the sum of products, 2 sum_i (1 - q_i .
// k_i), which is as good there and faster, and anything nearer a sum of
// squares. So what a pair gets depends on nothing beside it.
void CircleDistances(const float* rows, const float* keys, int64_t circles,
                     int64_t begin, int64_t end, int64_t stride, bool near,
                     float* plane);

}  // namespace attnd

#endif  // ATTND_KERNELS_CIRCLE_DISTANCES_H_
