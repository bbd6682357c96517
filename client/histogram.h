// A log-linear histogram of non-negative integers in HdrHistogram's layout:
// constant memory, constant time per record, and every value kept to a stated
// number of decimal digits, from nanoseconds to hours in one histogram.
//
// Values below 2^m, the first that exceeds 2 * 10^digits, have a slot of width
// `lowest` each; every further doubling of the range is cut into as many slots
// as half of that, so a slot is never wider than 10^-digits of its values.
// Sources: G. Tene, HdrHistogram (public domain), whose slots, percentile rule
// and text output these are.
#ifndef ATTND_CLIENT_HISTOGRAM_H_
#define ATTND_CLIENT_HISTOGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace attnd::client {

struct HistogramOptions {
  // Smallest value that is told from 0, >= 1, in the unit of the values.
  int64_t lowest = 1;
  // Largest value, >= 2 * lowest. Larger ones are counted at it and in
  // clamped(). Memory follows the largest value seen, not this.
  int64_t highest = int64_t{3'600'000'000'000};  // an hour in nanoseconds
  // Decimal digits kept, 1 to 5.
  int digits = 3;
};

// Not thread-safe; give each thread its own and Merge() them.
class Histogram {
 public:
  // InvalidArgument naming the option that is out of range.
  static absl::StatusOr<Histogram> Create(HistogramOptions options = {});

  // Counts `value` `count` times. Negative values count as 0. Amortised
  // constant time; allocates only when a value exceeds all before it, and not
  // at all after Reserve().
  void Record(int64_t value, int64_t count = 1);

  // Takes the memory for `highest` now.
  void Reserve();

  // Forgets all values; keeps the memory.
  void Clear();

  // Adds all counts of `other`, whatever its options; exact when they are
  // equal.
  void Merge(const Histogram& other);

  // Values recorded, and those of them above `highest`.
  int64_t count() const { return count_; }
  int64_t clamped() const { return clamped_; }

  // Smallest and largest recorded value, as far as digits tell; 0 when empty.
  int64_t Min() const;
  int64_t Max() const;

  // Of the middles of the slots, weighted by count; 0 when empty. Relative
  // error below 10^-digits.
  double Mean() const;
  double StdDev() const;

  // The smallest recorded value v, to the digits kept, such that at least
  // `percent` % of all values are <= v: the upper end of its slot. Min() for 0
  // % and less, Max() for 100 % and more; 0 when empty.
  int64_t ValueAtPercentile(double percent) const;

  // How many values lie in slots up to the one that holds `value`.
  int64_t CountAtOrBelow(int64_t value) const;

  // HdrHistogram's percentile distribution, which its plotters read: value
  // divided by `unit`, percentile, count up to it, 1 / (1 - percentile), in
  // steps that halve with the distance to 100 %, `ticks` for each half.
  std::string PercentileText(double unit = 1.0, int ticks = 5) const;

  // Counts of the slots from the lowest, without the empty ones at the end:
  // what HdrHistogram's formats carry.
  absl::Span<const int64_t> SlotCounts() const;
  // The slot that holds `value` >= 0, and the smallest value of a slot.
  int64_t SlotIndex(int64_t value) const { return IndexOf(value); }
  int64_t SlotValue(int64_t index) const { return ValueAt(index); }

  const HistogramOptions& options() const { return options_; }

  // Ends of the slot that holds `value`: all values in between are one.
  int64_t LowestEquivalent(int64_t value) const;
  int64_t HighestEquivalent(int64_t value) const;

 private:
  explicit Histogram(const HistogramOptions& options);

  int64_t IndexOf(int64_t value) const;
  int64_t ValueAt(int64_t index) const;
  int64_t SlotWidth(int64_t value) const;
  int64_t Middle(int64_t index) const;

  HistogramOptions options_;
  // log2 of the width of the first slots, and of half their number.
  int unit_magnitude_;
  int half_magnitude_;
  int64_t sub_buckets_;
  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  int64_t clamped_ = 0;
  int64_t min_ = 0;
  int64_t max_ = 0;
};

}  // namespace attnd::client

#endif  // ATTND_CLIENT_HISTOGRAM_H_
