#include "client/load/max_search.h"

#include <algorithm>
#include <cmath>

namespace attnd::client {
namespace {

// A rate below one call in a quarter of an hour is none.
constexpr double kSmallestRate = 1e-3;

Histogram LatencyOf(const Timeline& timeline, int begin, int end) {
  Histogram sum = *Histogram::Create({.digits = 2});
  for (int i = begin; i < end; ++i) sum.Merge(timeline.row(i).latency_ns);
  return sum;
}

}  // namespace

MaxSearch::MaxSearch(double first, double precision, int trials)
    : precision_(precision), trials_left_(trials), rate_(first) {}

std::optional<double> MaxSearch::Next() const {
  if (over_) return {};
  return rate_;
}

void MaxSearch::Tell(bool sustained) {
  over_ = --trials_left_ == 0;
  if (confirming_) {
    successes_ = sustained ? successes_ + 1 : 0;
    if (successes_ == 2) {
      found_ = rate_;
      over_ = true;
    } else if (!sustained) {
      rate_ /= 1 + precision_;
    }
  } else {
    (sustained ? good_ : bad_) = rate_;
    if (!bad_) {
      rate_ *= 2;
    } else if (!good_) {
      rate_ /= 2;
    } else if (*bad_ / *good_ > 1 + precision_) {
      rate_ = std::sqrt(*good_ * *bad_);
    } else {
      rate_ = *good_;
      confirming_ = true;
      successes_ = 1;
    }
  }
  over_ = over_ || rate_ < kSmallestRate;
}

bool Stable(const LoadResult& result) {
  if (result.dropped > 0) return false;
  const Timeline& timeline = result.timeline;
  // Rows by planned moment: the last calls may have ended long after it.
  int end = timeline.size();
  while (end > 0 && timeline.row(end - 1).planned == 0) --end;
  const int third = end / 3;
  const int64_t first = LatencyOf(timeline, 0, third).ValueAtPercentile(50);
  const int64_t last =
      LatencyOf(timeline, end - third, end).ValueAtPercentile(50);
  return last <= 2 * first + kStableNoiseNs;
}

}  // namespace attnd::client
