// Which tiles of keys a query tile may leave out because they provably hold
// next to no weight: monotone biases and decays turn long histories into a
// short horizon.
//
// For a row with logits l_j, any set of keys already summed gives Z >= sum
// exp(l_j). A tile whose logits are all <= u adds at most count e^u. It may be
// left out when e^u <= p Z / n with n the row's visible keys: all that is ever
// left out then weighs at most p of the row. u comes from Cauchy and Schwarz,
// |q| |k| times a bound on the decay, plus the largest bias over the tile's
// lags. Source of the idea: adaptive computation pruning of FoX (Lin et al.
// 2025), here with measured Z instead of its worst case and for every bias and
// decay.
#ifndef ATTND_KERNELS_PRUNING_H_
#define ATTND_KERNELS_PRUNING_H_

#include <cstdint>

#include "kernels/cumulative_bias.h"
#include "kernels/gemm.h"
#include "kernels/key_pack.h"
#include "kernels/plan.h"
#include "kernels/tensor.h"

namespace attnd {

// Whether anything of the plan can be left out: prune_tolerance > 0, nothing is
// asked for that holds or sums every pair (scores, weights, top keys, key mass,
// entropy), and no value channel has a softmax of its own.
bool CanPrune(const Plan& plan);

// Of one query tile. Without bound and hence never left out: tiles under a
// request's bias tensor, FIRE, GRAPE additive, dense generators that kept a
// matrix block, and keys that are not finite.
class Pruning {
 public:
  // Queries [first, first + count) of the item's order under query head `head`:
  // `queries` [count, pack.dim()] encoded and scaled. `gates` of the head when
  // the encoding has them, else null. Everything is borrowed.
  void Start(const Plan& plan, int64_t item, int64_t head, int64_t first,
             int64_t count, const float* queries, KeyPack& pack,
             const CumulativeBias* gates);

  // Says that each row of the tile has summed at least e^lse [count] by now.
  void Raise(int64_t row, int64_t count, const float* lse);

  // Whether rows [row, row + count), whole halves of 64, may leave out keys
  // [key, key + keys) of the pack; if so counts what that can lose.
  bool Skip(int64_t row, int64_t count, int64_t key, int64_t keys);

  // Bound on the weight that any row lost so far.
  double lost_mass_bound() const;

 private:
  // Bounds from above for the rows and keys of a Skip.
  double Bias(int64_t row, int64_t count, int64_t key, int64_t last) const;
  double Growth(int64_t row, int64_t count, int64_t key, int64_t last) const;

  // Of 64 rows that go on together: what Skip needs of all of them.
  struct Half {
    double norm = 0;      // largest of a query
    double lse = 0;       // smallest of rows that see a key
    int64_t visible = 0;  // most keys of a row
    double lost = 0;      // of any row
  };

  const Plan* plan_ = nullptr;
  const ItemGeometry* item_ = nullptr;
  const Encoder* encoder_ = nullptr;
  KeyPack* pack_ = nullptr;
  const CumulativeBias* gates_ = nullptr;
  int64_t head_ = 0, first_ = 0;
  bool bounded_ = false;
  Half halves_[2];
};

}  // namespace attnd

#endif  // ATTND_KERNELS_PRUNING_H_
