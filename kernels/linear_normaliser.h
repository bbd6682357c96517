// What rows of the linear kind are divided by.
#ifndef ATTND_KERNELS_LINEAR_NORMALISER_H_
#define ATTND_KERNELS_LINEAR_NORMALISER_H_

#include <cstdint>
#include <vector>

#include "kernels/linear_plan.h"
#include "kernels/linear_walk.h"

namespace attnd {

// RetNet's sum of weights is held between 1 and this (Sun et al. 2023, code).
inline constexpr float kMaxRetNetSum = 5e4f;

// A smaller sum of weights (in size) counts as 0: some of them may have been
// lost below the smallest float, and their average would not be theirs.
inline constexpr float kLeastSum = 1e-30f;

// One head's. For RetNet it follows the sum of decays from key to key.
class LinearNormaliser {
 public:
  // decay_sum: of RetNet, at the last key before `key` (-1 before key 0: at
  // the start).
  void Select(const LinearPlan& plan, const HeadEncoder* head,
              const LinearWalk& walk, double decay_sum);

  // The sums at keys [key, key + count), which follow those of the last call.
  void Follow(int64_t key, int64_t count);
  double decay_sum() const { return sums_.back(); }

  // Divides the sums over values [Dv] by what query i asks for; `ones` is its
  // sum over ones.
  void Divide(int64_t i, float ones, float* values) const;

 private:
  double Factor(int64_t i, float ones) const;

  LinearOptions::Normaliser kind_ = LinearOptions::Normaliser::kNone;
  const LinearWalk* walk_ = nullptr;
  int64_t value_dim_ = 0;
  double rate_ = 0;
  int source_ = -1;
  int64_t key_ = 0;           // of sums_[1]
  std::vector<double> sums_;  // before the chunk, then after each of its keys
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_NORMALISER_H_
