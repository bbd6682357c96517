// Lags and visibility of single pairs, as the rules read: for the oracle alone.
#ifndef ATTND_KERNELS_REFERENCE_PAIRS_H_
#define ATTND_KERNELS_REFERENCE_PAIRS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/plan.h"

namespace attnd::reference {

using Int128 = __int128;

// t_query - t_key: whole ticks, and for real times the rest of less than two
// ticks. `rounded` is the difference as windows and biases read it.
struct Lag {
  Int128 ticks = 0;
  long double rest = 0;
  double rounded = 0;
};

inline Lag RealLag(double query, double key) {
  const double q = std::trunc(query), k = std::trunc(key);
  return {static_cast<Int128>(q) - static_cast<Int128>(k),
          static_cast<long double>(query - q) - (key - k), query - key};
}

inline Lag TickLag(int64_t query, int64_t key) {
  const Int128 ticks = static_cast<Int128>(query) - key;
  return {ticks, 0, static_cast<double>(ticks)};
}

// The rules of MaskSpec for one item, pair by pair. Rows are those of the
// tensors.
class PairRules {
 public:
  PairRules(const AttentionProblem& problem, int64_t item)
      : problem_(problem),
        mask_(problem.mask),
        item_(item),
        keys_(problem.key.shape().rows) {
    if (mask_.query_offsets.empty()) {
      batch_ = item;
      nq_ = mask_.query_lengths.empty() ? problem.query.shape().rows
                                        : mask_.query_lengths[item];
      nk_ = mask_.key_lengths.empty() ? keys_ : mask_.key_lengths[item];
    } else {
      first_query_ = mask_.query_offsets[item];
      first_key_ = mask_.key_offsets[item];
      nq_ = mask_.query_offsets[item + 1] - first_query_;
      nk_ = mask_.key_offsets[item + 1] - first_key_;
    }
    for (int64_t j = 0; j < keys_; ++j) {
      if (ValidKey(j)) order_.push_back(j);
    }
    std::stable_sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) {
      return Before(KeyLag(a, b));
    });
    place_.resize(keys_);
    for (size_t n = 0; n < order_.size(); ++n) {
      place_[order_[n]] = static_cast<int64_t>(n);
    }
  }

  int64_t item() const { return item_; }
  int64_t batch() const { return batch_; }
  bool ValidQuery(int64_t i) const {
    return i >= first_query_ && i < first_query_ + nq_;
  }
  bool ValidKey(int64_t j) const {
    return j >= first_key_ && j < first_key_ + nk_ &&
           (mask_.key_validity.empty() ||
            mask_.key_validity[batch_ * keys_ + j] != 0) &&
           InRanges(j);
  }
  // Valid keys in (time, index) order.
  const std::vector<int64_t>& order() const { return order_; }

  // Which event a valid row is: of its item's in (time, index) order.
  int64_t KeyEvent(int64_t j) const { return place_[j]; }
  int64_t QueryEvent(int64_t i) const {
    int64_t earlier = 0;
    for (int64_t l = first_query_; l < first_query_ + nq_; ++l) {
      const bool tied = !Before(QueryLag(l, i)) && !Before(QueryLag(i, l));
      if (Before(QueryLag(l, i)) || (tied && l < i)) ++earlier;
    }
    return earlier;
  }

  bool Sees(int64_t i, int64_t j) const {
    if (!ValidQuery(i) || !ValidKey(j)) return false;
    return place_[j] < mask_.prefix ||
           (InTime(LagOf(i, j)) && InCount(i, j) && InIndex(i, j));
  }

  Lag LagOf(int64_t i, int64_t j, int coordinate = 0) const {
    const TimeAxis &query = problem_.query_time, &key = problem_.key_time;
    switch (query.kind()) {
      case TimeAxis::Kind::kPositions:
        return TickLag(nk_ - nq_ + i - first_query_, j - first_key_);
      case TimeAxis::Kind::kTicks:
        return TickLag(query.Ticks(batch_, i, coordinate),
                       key.Ticks(batch_, j, coordinate));
      case TimeAxis::Kind::kReal:
        return RealLag(query.Real(batch_, i, coordinate),
                       key.Real(batch_, j, coordinate));
    }
    return {};
  }

  // t_j - t_l of two keys, of two queries.
  Lag KeyLag(int64_t j, int64_t l, int coordinate = 0) const {
    return RowLag(problem_.key_time, j, l, coordinate);
  }
  Lag QueryLag(int64_t i, int64_t l) const {
    return RowLag(problem_.query_time, i, l);
  }

 private:
  Lag RowLag(const TimeAxis& axis, int64_t a, int64_t b,
             int coordinate = 0) const {
    switch (axis.kind()) {
      case TimeAxis::Kind::kPositions:
        return TickLag(a, b);
      case TimeAxis::Kind::kTicks:
        return TickLag(axis.Ticks(batch_, a, coordinate),
                       axis.Ticks(batch_, b, coordinate));
      case TimeAxis::Kind::kReal:
        return RealLag(axis.Real(batch_, a, coordinate),
                       axis.Real(batch_, b, coordinate));
    }
    return {};
  }

  static bool Before(const Lag& lag) {
    return lag.ticks < 0 || (lag.ticks == 0 && lag.rest < 0);
  }

  bool InTime(const Lag& lag) const {
    if (problem_.query_time.kind() == TimeAxis::Kind::kReal) {
      return Holds(lag.rounded, mask_.past_time, mask_.future_time);
    }
    return Holds(lag.ticks, mask_.past_ticks, mask_.future_ticks);
  }

  template <typename T, typename Bound>
  bool Holds(T lag, Bound past, Bound future) const {
    if (mask_.causal && (mask_.strict ? lag <= 0 : lag < 0)) return false;
    if (past && lag > static_cast<T>(*past)) return false;
    return !future || lag >= -static_cast<T>(*future);
  }

  // Windows in keys: the key is the n-th at or before the query, or after it.
  bool InCount(int64_t i, int64_t j) const {
    if (!mask_.past_keys && !mask_.future_keys) return true;
    int64_t behind = 0;  // keys at or before the query
    for (int64_t l : order_) behind += Before(LagOf(i, l)) ? 0 : 1;
    if (place_[j] < behind) {
      return !mask_.past_keys || behind - place_[j] <= *mask_.past_keys;
    }
    return !mask_.future_keys || place_[j] - behind < *mask_.future_keys;
  }

  bool InIndex(int64_t i, int64_t j) const {
    if (!mask_.causal_index) return true;
    const int64_t corner = i - first_query_ + nk_ - nq_;
    return mask_.strict ? j - first_key_ < corner : j - first_key_ <= corner;
  }

  bool InRanges(int64_t j) const {
    const TimeAxis& key = problem_.key_time;
    return mask_.key_ranges.empty() ||
           std::any_of(mask_.key_ranges.begin(), mask_.key_ranges.end(),
                       [&](const TimeRange& range) {
                         if (key.kind() == TimeAxis::Kind::kReal) {
                           const double t = key.Real(batch_, j);
                           return range.begin_time <= t && t <= range.end_time;
                         }
                         const int64_t t = key.kind() == TimeAxis::Kind::kTicks
                                               ? key.Ticks(batch_, j)
                                               : j - first_key_;
                         return range.begin_ticks <= t && t <= range.end_ticks;
                       });
  }

  const AttentionProblem& problem_;
  const MaskSpec& mask_;
  const int64_t item_;
  int64_t keys_, batch_ = 0, first_query_ = 0, first_key_ = 0, nq_, nk_;
  std::vector<int64_t> order_, place_;
};

}  // namespace attnd::reference

#endif  // ATTND_KERNELS_REFERENCE_PAIRS_H_
