// The generator X of one head at a known head dimension: a direct sum over
// channels of rotation planes, decaying and Jordan chains and small dense
// blocks, optionally inside a basis. Symbolic twin: encoding_spec.h; compiled
// twin: encoder.h.
#ifndef ATTND_KERNELS_GENERATOR_H_
#define ATTND_KERNELS_GENERATOR_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/direct_sum.h"
#include "kernels/encoding_spec.h"
#include "kernels/rotary_scaling.h"  // RotaryFrequencies

namespace attnd {

// The published ALiBi slopes: with c = 2^floor(log2 heads), 2^(-b(h+1)/c) for
// h < c, then 2^(-(b/2)(2(h-c)+1)/c); b = bias_max.
std::vector<double> PublishedSlopes(int heads, double bias_max = 8);

// Immutable once made; shared by all threads.
class Generator {
 public:
  // Resolves blocks at a head dimension. `length` is the number of valid keys
  // of the item, for the scalings that depend on it. INVALID_ARGUMENT if the
  // blocks need more than head_dim channels, a rotary block has an odd number
  // of channels, an eigenvalue grows, a dense block or basis is too ill
  // conditioned (kMaxCondition), or a basis is around a free rotation.
  // CANCELLED soon after `stop` becomes true.
  static absl::StatusOr<Generator> Make(
      const std::vector<Block>& blocks, int head_dim, double length = 0,
      const std::vector<double>& basis = {},
      const std::atomic<bool>* stop = nullptr);

  int dim() const { return sum_.dim; }
  const std::vector<Plane>& planes() const { return sum_.planes; }
  const std::vector<Chain>& chains() const { return sum_.chains; }
  const std::vector<SmallBlock>& small_blocks() const {
    return sum_.small_blocks;
  }
  // Parts outside the class; none = scores are functions of the lags.
  const std::vector<FreeRotation>& free_rotations() const {
    return sum_.free_rotations;
  }
  bool relative() const { return free_rotations().empty(); }
  // Multiplies channel c of encoded q and of encoded k each (YaRN, LongRoPE
  // amplitude); empty = all 1.
  const std::vector<double>& channel_scale() const {
    return sum_.channel_scale;
  }
  // A(D) = P exp(DX) P^-1, row-major dim x dim; both empty = identity. Folds a
  // block-diagonalised dense block and EncodingSpec::basis.
  const std::vector<double>& basis() const { return basis_; }
  const std::vector<double>& basis_inverse() const { return basis_inverse_; }
  // Condition number of the basis in the 2-norm; 1 without one.
  double condition() const { return condition_; }
  // phi1 instead of exp; then for all blocks.
  bool averaged() const { return sum_.averaged; }

  // Every drive that a plane, chain or small block names; ascending, each once.
  std::vector<Drive> drives() const;

  // Decays or Jordan parts exist: defined for lag >= 0 only.
  bool one_sided() const;
  // sup over D >= 0 of |A(D)| is finite.
  bool bounded() const;
  // Depends on `length`.
  bool length_dependent() const { return sum_.length_dependent; }

  // A(D), dim x dim row-major, in double, all drives advanced by the same lag:
  // phi1(DX) where averaged(), with channel_scale and basis. Exp(0) without a
  // scale is the identity to the bit. For oracles: nothing here is fast.
  // absolute_lag: decays and couplings take |D|. Free rotations: for a key at
  // the origin.
  std::vector<double> Exp(double lag, bool absolute_lag = false) const;

  // The same with a lag per drive, and with the angle of each plane [rad, whole
  // turns left out] where `angles` is not empty: for exact phases. Angles
  // belong to the signed lags.
  std::vector<double> Exp(absl::FunctionRef<double(const Drive&)> lag,
                          absl::Span<const double> angles,
                          bool absolute_lag = false) const;

 private:
  // Puts P around the basis of the blocks.
  absl::Status FoldBasis(const std::vector<double>& basis);

  DirectSum sum_;
  std::vector<double> basis_, basis_inverse_;
  double condition_ = 1;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_GENERATOR_H_
