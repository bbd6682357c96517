// Puts planes, chains and dense forms on the channels of a head.
#ifndef ATTND_KERNELS_DIRECT_SUM_BUILDER_H_
#define ATTND_KERNELS_DIRECT_SUM_BUILDER_H_

#include <vector>

#include "absl/types/span.h"
#include "kernels/dense.h"
#include "kernels/direct_sum.h"
#include "kernels/encoding_spec.h"

namespace attnd {

struct ResolvedBlocks {
  DirectSum sum;
  // V and its inverse, row-major dim x dim, both empty = identity: X = V (sum)
  // V^-1. From dense and skew rank-2 blocks; block-diagonal along the blocks.
  std::vector<double> basis, basis_inverse;
};

// Every `first` is the first channel of what is added; the channels must be
// free.
class DirectSumBuilder {
 public:
  explicit DirectSumBuilder(int dim);

  // One plane per frequency over 2 * frequencies.size() channels. The planes
  // may be changed until the next call.
  absl::Span<Plane> AddPlanes(int first, const std::vector<double>& frequencies,
                              PairLayout layout, const Drive& drive);

  // Nothing for a chain of one with rate 0.
  void AddChain(std::vector<int> channels, double rate, double coupling,
                const Drive& drive);

  // A complex chain over (re, im) of jet 0, of jet 1, ...: 2 * size channels.
  void AddJets(int first, int size, double omega, double rate, double eta,
               const Drive& drive);

  // A form's parts, moved to `first` and to the drive, and its basis.
  void AddForm(int first, DenseForm form, const Drive& drive);

  void AddFreeRotation(FreeRotation rotation);

  // Sets the channel scale of `width` channels.
  void Amplify(int first, int width, double amplitude);

  ResolvedBlocks Take() && { return std::move(resolved_); }

 private:
  ResolvedBlocks resolved_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_DIRECT_SUM_BUILDER_H_
