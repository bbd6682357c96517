// What an encoding IS, before any size or tick is known: blocks of a generator
// X with A(D) = exp(D X), and bias terms.
//
// Conventions: lag D = t_query - t_key in units; logit = scale * q^T A(D) k +
// bias(D). A rotation plane with frequency w has X = -w J, J = [[0,-1],[1,0]]:
// the score of RoFormer and Hugging Face.
#ifndef ATTND_KERNELS_GENERATOR_H_
#define ATTND_KERNELS_GENERATOR_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace attnd {

// Channels of a plane within a block of n channels: half-split (j, j + n/2)
// (GPT-NeoX, Hugging Face), interleaved (2j, 2j + 1) (RoFormer, GPT-J).
enum class PairLayout : uint8_t { kHalfSplit, kInterleaved };

// Channels that see no time.
struct IdentityBlock {
  int width = 1;
};

// RoPE (Su et al. 2021): plane j of r/2 turns by base^(-2j/r) rad per unit.
struct RotaryBlock {
  double base = 10000;
  int rotary_dim = 0;  // r, even; 0 = all channels that are left
  PairLayout layout = PairLayout::kHalfSplit;
};

// Planes with given frequencies, rad per unit.
struct RotationBlock {
  std::vector<double> frequencies;
  PairLayout layout = PairLayout::kHalfSplit;
};

using Block = std::variant<IdentityBlock, RotaryBlock, RotationBlock>;

// ALiBi (Press et al. 2022): bias -slope * D, or -slope * |D| when two-sided.
struct AlibiTerm {
  std::vector<double> slopes;  // per query head, or one; empty = published
  bool two_sided = false;
  double bias_max = 8;
};

using BiasTerm = std::variant<AlibiTerm>;

// A complete encoding. Default: NoPE.
struct EncodingSpec {
  std::vector<Block> blocks;  // from channel 0 on; the rest is identity
  std::vector<BiasTerm> biases;
  int64_t unit_ns = 0;        // length of a unit; 0 = positions
  bool absolute_lag = false;  // two-sided rule of one-sided parts: use |D|

  bool uses_time() const { return !blocks.empty() || !biases.empty(); }
};

// Checks all that can be checked without sizes: finite numbers, ranges, even
// dims. INVALID_ARGUMENT with the path of the first offending field
// ("blocks[1].rotary.base: ...").
absl::Status Validate(const EncodingSpec& spec);

// The published ALiBi slopes: with c = 2^floor(log2 heads), 2^(-b(h+1)/c) for
// h < c, then 2^(-(b/2)(2(h-c)+1)/c); b = bias_max.
std::vector<double> PublishedSlopes(int heads, double bias_max = 8);

// base^(-2j/r), j = 0 .. r/2 - 1.
std::vector<double> RotaryFrequencies(int rotary_dim, double base);

// One rotation plane over two channels of a head.
struct Plane {
  int first = 0, second = 0;  // channels
  double omega = 0;           // rad per unit
};

// The generator of one head at a known head dimension: planes over disjoint
// channels, identity elsewhere.
class Generator {
 public:
  // INVALID_ARGUMENT if the blocks need more than head_dim channels, or a
  // rotary block has an odd number of channels.
  static absl::StatusOr<Generator> Make(const std::vector<Block>& blocks,
                                        int head_dim);

  int dim() const { return dim_; }
  const std::vector<Plane>& planes() const { return planes_; }

  // exp(D X), dim x dim row-major, in double. For oracles: no size is fast.
  std::vector<double> Exp(double lag) const;

 private:
  int dim_ = 0;
  std::vector<Plane> planes_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_GENERATOR_H_
