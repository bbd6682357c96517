// Turns of rows by exp(sum_a p_a A_a), p_a where a row itself stands: LieRE
// with several axes, which no lag describes.
#ifndef ATTND_KERNELS_FREE_TURNS_H_
#define ATTND_KERNELS_FREE_TURNS_H_

#include <vector>

#include "absl/types/span.h"

namespace attnd {

// Channels that turn together, at most.
inline constexpr int kMaxFreeTurn = 128;

// On `size` encoded positions from `first` on.
struct FreeTurn {
  int first = 0;
  int size = 0;
  std::vector<int> sources;        // what p_a is measured along
  std::vector<double> generators;  // A_a, skew: [sources, size, size] row-major
  // Per source, rad per unit: no plane turns faster.
  std::vector<double> speeds;
  int offset = 0;  // of its matrix behind a phase row
};

// Rows that may turn further are refused. Places are doubles, so that angles of
// this size are off by 1e-8 rad, which the accuracy contract can bear.
inline constexpr double kMaxFreeAngle = 0x1p26;

// Each entry of a turn within kMaxFreeAngle is this close.
inline constexpr double kFreeTurnError = 2e-7;

// A turn with speeds and no place yet; generators as above.
FreeTurn MakeFreeTurn(int size, std::vector<double> generators);

// sum_a |p_a| speed_a: no plane turns by more. places [sources], in units.
double LargestAngle(const FreeTurn& turn, absl::Span<const double> places);

// exp(sum_a p_a A_a), transposed: matrix[in * size + out]. Exactly the identity
// where all places are 0. O(size^3).
void FreeTurnMatrix(const FreeTurn& turn, absl::Span<const double> places,
                    float* matrix);

// What the matrices of one row cost, in operations of a matrix product.
double FreeTurnFlops(absl::Span<const FreeTurn> turns);

}  // namespace attnd

#endif  // ATTND_KERNELS_FREE_TURNS_H_
