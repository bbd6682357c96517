// Keys under the zero-order hold and the trapezoid rule, in double: for the
// oracle of the linear kind alone.
#ifndef ATTND_KERNELS_HELD_REFERENCE_H_
#define ATTND_KERNELS_HELD_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "kernels/linear_problem.h"
#include "kernels/reference_pairs.h"

namespace attnd::reference {

class HeldKeys {
 public:
  HeldKeys(const LinearProblem& problem, const PairRules& rules,
           const Encoder* encoder, int64_t batch, int64_t kv_head);

  // moved = what key j, seen by query i, is worth there, and size = the same
  // with absolute values inside the sums and integrals. False where the hold
  // takes so many turns that the integral would miss some.
  bool Move(int64_t i, int64_t j, const std::vector<double>& key,
            std::vector<double>& moved, std::vector<double>& size) const;

 private:
  // A row of the item: a query or a key.
  struct Row {
    bool query;
    int64_t index;
  };
  // Along coordinate 0 in ticks, and along a drive in units: a minus b.
  double Gap(Row a, Row b, int coordinate = 0) const;
  double DriveGap(const Drive& drive, Row a, Row b) const;
  std::vector<double> Matrix(Row to, Row from, Row until, double share) const;
  bool SeenBy(int64_t i, int64_t j) const;

  const LinearProblem& problem_;
  const PairRules& rules_;
  const Encoder* encoder_;
  int64_t batch_, kv_head_;
  double units_per_tick_;
  std::vector<int64_t> rank_;  // of valid keys by (time, index)
};

}  // namespace attnd::reference

#endif  // ATTND_KERNELS_HELD_REFERENCE_H_
