// The rows of one item and head in the order in which a pass meets them.
#ifndef ATTND_KERNELS_LINEAR_WALK_H_
#define ATTND_KERNELS_LINEAR_WALK_H_

#include <array>
#include <cstdint>

#include "kernels/drive_axes.h"
#include "kernels/linear_decays.h"
#include "kernels/linear_plan.h"
#include "kernels/tensor.h"

namespace attnd {

// Forward: by time. Backward: from the last to the first, lags turned round, so
// that a query "sees" the keys after its time. Everything counts in this order.
class LinearWalk {
 public:
  void Select(const LinearPlan& plan, int64_t item, int64_t kv_head,
              bool backward);

  bool backward() const { return backward_; }
  int64_t keys() const { return item_->key_rows; }
  int64_t queries() const { return item_->query_rows; }
  // Row as sent.
  int64_t QueryRow(int64_t i) const {
    return item_->QueryRow(backward_ ? queries() - 1 - i : i);
  }
  int64_t KeyRow(int64_t j) const {
    return item_->KeyRow(backward_ ? keys() - 1 - j : j);
  }
  // Keys [0, Seen(i)) are visible to query i; never falls with i.
  int64_t Seen(int64_t i) const {
    return backward_ ? SeenBackward(i) : item_->end[i];
  }
  // Query i stands at or before key j along coordinate 0.
  bool NotAfter(int64_t i, int64_t j) const {
    const double lag = backward_ ? -item_->Lag(Query(i), Key(j))
                                 : item_->Lag(Query(i), Key(j));
    return lag <= 0;
  }

  // Of the encoder; 0 = NoPE.
  int sources() const { return axes_.sources(); }
  double QueryLag(int source, int64_t i, int64_t key) const {
    return Turn(axes_.QueryMinusKey(source, Query(i), Key(key)));
  }
  // Since query i - 1.
  double QueryGap(int source, int64_t i) const {
    return Turn(axes_.QueryMinusQuery(source, Query(i), Query(i - 1)));
  }
  double KeyLag(int source, int64_t a, int64_t b) const {
    return Turn(axes_.KeyMinusKey(source, Key(a), Key(b)));
  }
  // Since the initial state, which must exist.
  double QueryLagOfStart(int source, int64_t i) const {
    return axes_.QueryMinusOrigin(source, Query(i));
  }
  double KeyLagOfStart(int source, int64_t j) const {
    return axes_.KeyMinusOrigin(source, Key(j));
  }
  // Since key j - 1 in units of coordinate 0; since the start for j = 0 where
  // there is one, else 0.
  double GapBefore(int64_t j) const;
  // Of query i since the last key it sees, or since the start.
  double GapToQuery(int64_t i) const;

  bool has_start() const { return has_start_; }
  DriveAxes& axes() { return axes_; }
  // Phase rows (drive_axes.h), valid until the row 64 further on is asked for.
  // A query where its last key stands takes that key's.
  const float* QueryPhases(int64_t i);
  const float* KeyPhases(int64_t j);
  const PhasePoint* QueryPoints(int64_t i) {
    return axes_.QueryPoints(Query(i));
  }
  const PhasePoint* KeyPoints(int64_t j) { return axes_.KeyPoints(Key(j)); }

 private:
  int64_t SeenBackward(int64_t i) const;
  int64_t Query(int64_t i) const { return backward_ ? queries() - 1 - i : i; }
  int64_t Key(int64_t j) const { return backward_ ? keys() - 1 - j : j; }
  double Turn(double lag) const { return backward_ ? -lag : lag; }
  void SetStart(const LinearPlan& plan, int64_t item, int64_t kv_head);
  bool SamePlace(int64_t i, int64_t j) const;

  const ItemGeometry* item_ = nullptr;
  bool backward_ = false, strict_ = false, has_start_ = false;
  double unit_ = 1;
  // Of the start along coordinate 0.
  int64_t start_ticks_ = 0;
  double start_real_ = 0;
  DriveAxes axes_;
  // The last phase rows of keys and of queries, where heads share none.
  struct PhaseCache {
    AlignedBuffer rows;
    std::array<int64_t, kLinearChunk> row;
  };
  const float* Cached(PhaseCache& cache, int64_t row, bool query);
  int64_t phase_floats_ = 0;  // of a row
  PhaseCache key_phases_, query_phases_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_WALK_H_
