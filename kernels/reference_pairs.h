// Lags and visibility of single pairs, as the rules read: for the oracle alone.
#ifndef ATTND_KERNELS_REFERENCE_PAIRS_H_
#define ATTND_KERNELS_REFERENCE_PAIRS_H_

#include <cmath>
#include <cstdint>

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

// The rules of MaskSpec for one batch item, pair by pair.
class PairRules {
 public:
  PairRules(const AttentionProblem& problem, int64_t batch)
      : problem_(problem), mask_(problem.mask), batch_(batch) {
    const int64_t rows = problem.query.shape().rows;
    keys_ = problem.key.shape().rows;
    nq_ = mask_.query_lengths.empty() ? rows : mask_.query_lengths[batch];
    nk_ = mask_.key_lengths.empty() ? keys_ : mask_.key_lengths[batch];
  }

  bool Valid(int64_t i, int64_t j) const { return i < nq_ && ValidKey(j); }

  Lag LagOf(int64_t i, int64_t j, int coordinate = 0) const {
    const TimeAxis &query = problem_.query_time, &key = problem_.key_time;
    switch (query.kind()) {
      case TimeAxis::Kind::kPositions:
        return TickLag(nk_ - nq_ + i, j);
      case TimeAxis::Kind::kTicks:
        return TickLag(query.Ticks(batch_, i, coordinate),
                       key.Ticks(batch_, j, coordinate));
      case TimeAxis::Kind::kReal:
        return RealLag(query.Real(batch_, i, coordinate),
                       key.Real(batch_, j, coordinate));
    }
    return {};
  }

  // t_j - t_l of two keys.
  Lag KeyLag(int64_t j, int64_t l) const {
    const TimeAxis& key = problem_.key_time;
    switch (key.kind()) {
      case TimeAxis::Kind::kPositions:
        return TickLag(j, l);
      case TimeAxis::Kind::kTicks:
        return TickLag(key.Ticks(batch_, j), key.Ticks(batch_, l));
      case TimeAxis::Kind::kReal:
        return RealLag(key.Real(batch_, j), key.Real(batch_, l));
    }
    return {};
  }

  bool ValidKey(int64_t j) const {
    return j < nk_ && (mask_.key_validity.empty() ||
                       mask_.key_validity[batch_ * keys_ + j] != 0);
  }
  int64_t keys() const { return keys_; }

  bool InTime(const Lag& lag) const {
    if (problem_.query_time.kind() == TimeAxis::Kind::kReal) {
      return Holds(lag.rounded, mask_.past_time, mask_.future_time);
    }
    return Holds(lag.ticks, mask_.past_ticks, mask_.future_ticks);
  }

 private:
  template <typename T, typename Bound>
  bool Holds(T lag, Bound past, Bound future) const {
    if (mask_.causal && (mask_.strict ? lag <= 0 : lag < 0)) return false;
    if (past && lag > static_cast<T>(*past)) return false;
    return !future || lag >= -static_cast<T>(*future);
  }

  const AttentionProblem& problem_;
  const MaskSpec& mask_;
  int64_t batch_, keys_, nq_, nk_;
};

}  // namespace attnd::reference

#endif  // ATTND_KERNELS_REFERENCE_PAIRS_H_
