// Frequencies of RoPE under its published scalings.
#ifndef ATTND_KERNELS_ROTARY_SCALING_H_
#define ATTND_KERNELS_ROTARY_SCALING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// base^(-2j/r), j = 0 .. r/2 - 1; float_powers: with base, 2j/r, the power and
// its inverse rounded to float32 one after the other.
std::vector<double> RotaryFrequencies(int rotary_dim, double base,
                                      bool float_powers = false);

struct RotaryLadder {
  std::vector<double> frequencies;  // rad per unit, one per plane
  // Multiplies the rotated channels of q and of k each (YaRN, LongRoPE).
  double amplitude = 1;
  // Another `length` may give other numbers.
  bool length_dependent = false;
};

// The ladder of a block over `rotary_dim` channels (even, > 0) for an item of
// `length` valid keys. With axial sections every section has a ladder of its
// own, scaled by itself. The block must have passed CheckBlocks;
// INVALID_ARGUMENT with `path` where it does not fit rotary_dim.
//
// Sources: Su et al. 2021; Chen et al. 2023 (linear); bloc97 2023 (NTK,
// dynamic); Peng et al. 2023 (YaRN); Ding et al. 2024 (LongRoPE); Llama 3;
// Barbero et al. 2024 (proportional).
absl::StatusOr<RotaryLadder> ScaledLadder(const RotaryBlock& block,
                                          int rotary_dim, double length,
                                          const std::string& path);

}  // namespace attnd

#endif  // ATTND_KERNELS_ROTARY_SCALING_H_
