// Keys that count between the keys: zero-order hold and trapezoid rule.
//
// Both become plain events: what key m - 1 is worth once key m is visible
// stands at the time of key m, and what the last visible key is worth so far is
// added to each query by itself. So a query that sees e keys sums events 0 to
// e - 1 and one share, and a state needs to carry one key.
#ifndef ATTND_KERNELS_LINEAR_HELD_H_
#define ATTND_KERNELS_LINEAR_HELD_H_

#include <cstdint>
#include <vector>

#include "kernels/linear_plan.h"
#include "kernels/linear_walk.h"
#include "kernels/tensor.h"

namespace attnd {

// One head's; borrows from the plan and the walk.
class HeldKeys {
 public:
  void Select(const LinearPlan& plan, int64_t item, int64_t kv_head,
              const HeadEncoder* head, LinearWalk& walk);

  // Event m in encoded order, rotated, [padded dim]; zeros for the event before
  // the first key of a stream.
  void Event(int64_t m, float* row);
  // Its value, [Dv].
  void EventValue(int64_t m, float* value) { Value(m - 1, value); }

  // q^T W k of query i and the last key it sees, W what that is worth there;
  // `raw` the query after the feature map, `scale` multiplies. 0 if it sees
  // none.
  float Share(int64_t i, const float* raw, float scale);
  // Value of that key, [Dv].
  void ShareValue(int64_t i, float* value) { Value(walk_->Seen(i) - 1, value); }

  // For the state to carry: the last key after the feature map, its value and
  // the gap before it. False if there is none.
  bool Last(float* key, float* value);
  double LastGap() const;

 private:
  bool Exists(int64_t key) const {
    return key >= 0 || (key == -1 && walk_->has_start());
  }
  void Key(int64_t key, float* raw) const;
  void Value(int64_t key, float* value) const;
  // Encoded without rotation, in double.
  void Encode(bool query, const float* raw, double* row);
  double GapBeforeKey(int64_t key) const;

  const LinearPlan* plan_ = nullptr;
  const HeadEncoder* head_ = nullptr;
  LinearWalk* walk_ = nullptr;
  int64_t item_ = 0, batch_ = 0, kv_head_ = 0, dim_ = 0, padded_ = 0;
  AlignedBuffer raw_, encoded_, scratch_;
  std::vector<double> row_, moved_, query_, lags_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_HELD_H_
