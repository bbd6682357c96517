#include "client/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attnd::client {
namespace {

int Log2Floor(int64_t value) {
  return std::bit_width(static_cast<uint64_t>(value)) - 1;
}

}  // namespace

absl::StatusOr<Histogram> Histogram::Create(HistogramOptions options) {
  if (options.digits < 1 || options.digits > 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("digits: ", options.digits, ", expected 1 to 5"));
  }
  // 2^40 units resolve 12 days in microseconds; beyond it indices could exceed
  // 63 bits.
  constexpr int64_t kMaxLowest = int64_t{1} << 40;
  if (options.lowest < 1 || options.lowest > kMaxLowest) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lowest: ", options.lowest, ", expected 1 to ", kMaxLowest));
  }
  if (options.highest / 2 < options.lowest) {
    return absl::InvalidArgumentError(
        absl::StrCat("highest: ", options.highest, ", expected at least ",
                     2 * options.lowest, ", twice the lowest"));
  }
  return Histogram(options);
}

Histogram::Histogram(const HistogramOptions& options) : options_(options) {
  int64_t largest_single = 2;  // 2 * 10^digits
  for (int i = 0; i < options.digits; ++i) largest_single *= 10;
  half_magnitude_ = Log2Floor(largest_single - 1);
  unit_magnitude_ = Log2Floor(options.lowest);
  sub_buckets_ = int64_t{2} << half_magnitude_;
  counts_.resize(sub_buckets_);
}

// Slots 0 .. sub_buckets_ - 1 hold the values below sub_buckets_ units. From
// there on each doubling adds sub_buckets_ / 2 slots, twice as wide.
int64_t Histogram::IndexOf(int64_t value) const {
  const int bits = std::bit_width(
      static_cast<uint64_t>(value | ((sub_buckets_ - 1) << unit_magnitude_)));
  const int bucket = bits - unit_magnitude_ - (half_magnitude_ + 1);
  const int64_t sub_bucket = value >> (bucket + unit_magnitude_);
  return (static_cast<int64_t>(bucket) << half_magnitude_) + sub_bucket;
}

int64_t Histogram::ValueAt(int64_t index) const {
  const int64_t half = sub_buckets_ / 2;
  const int64_t bucket = std::max<int64_t>(index / half - 1, 0);
  return (index - bucket * half) << (bucket + unit_magnitude_);
}

int64_t Histogram::SlotWidth(int64_t value) const {
  const int bits = std::bit_width(
      static_cast<uint64_t>(value | ((sub_buckets_ - 1) << unit_magnitude_)));
  return int64_t{1} << (bits - (half_magnitude_ + 1));
}

int64_t Histogram::LowestEquivalent(int64_t value) const {
  return ValueAt(IndexOf(value));
}

int64_t Histogram::HighestEquivalent(int64_t value) const {
  return LowestEquivalent(value) + (SlotWidth(value) - 1);
}

int64_t Histogram::Middle(int64_t index) const {
  const int64_t value = ValueAt(index);
  return value + SlotWidth(value) / 2;
}

void Histogram::Record(int64_t value, int64_t count) {
  if (count <= 0) return;
  if (value > options_.highest) clamped_ += count;
  value = std::clamp<int64_t>(value, 0, options_.highest);
  const size_t index = IndexOf(value);
  if (index >= counts_.size()) {
    // Grow to the end of the value's doubling.
    counts_.resize((index / (sub_buckets_ / 2) + 1) * (sub_buckets_ / 2));
  }
  counts_[index] += count;
  min_ = count_ == 0 ? value : std::min(min_, value);
  max_ = std::max(max_, value);
  count_ += count;
}

void Histogram::Reserve() {
  const size_t slots = IndexOf(options_.highest) + 1;
  counts_.reserve((slots / (sub_buckets_ / 2) + 1) * (sub_buckets_ / 2));
}

void Histogram::Clear() {
  std::fill(counts_.begin(), counts_.end(), 0);
  count_ = clamped_ = min_ = max_ = 0;
}

void Histogram::Merge(const Histogram& other) {
  const int64_t clamped = clamped_ + other.clamped_;
  const int64_t count = count_;
  const int64_t min = min_;
  const int64_t max = max_;
  for (size_t i = 0; i < other.counts_.size(); ++i) {
    if (other.counts_[i] > 0) Record(other.ValueAt(i), other.counts_[i]);
  }
  if (other.count_ == 0) return;
  // Slots only tell the ends to their own digits.
  clamped_ = clamped;
  min_ = std::min(count == 0 ? other.min_ : std::min(min, other.min_),
                  options_.highest);
  max_ = std::min(std::max(max, other.max_), options_.highest);
}

absl::Span<const int64_t> Histogram::SlotCounts() const {
  const size_t end = count_ == 0 ? 0 : IndexOf(max_) + 1;
  return absl::MakeConstSpan(counts_).first(end);
}

int64_t Histogram::Min() const { return LowestEquivalent(min_); }

int64_t Histogram::Max() const {
  return count_ == 0 ? 0 : HighestEquivalent(max_);
}

double Histogram::Mean() const {
  if (count_ == 0) return 0;
  double sum = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    sum += static_cast<double>(Middle(i)) * static_cast<double>(counts_[i]);
  }
  return sum / static_cast<double>(count_);
}

double Histogram::StdDev() const {
  if (count_ == 0) return 0;
  const double mean = Mean();
  double sum = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    const double deviation = static_cast<double>(Middle(i)) - mean;
    sum += deviation * deviation * static_cast<double>(counts_[i]);
  }
  return std::sqrt(sum / static_cast<double>(count_));
}

int64_t Histogram::ValueAtPercentile(double percent) const {
  if (count_ == 0) return 0;
  if (percent <= 0) return Min();
  // One step of rounding below the product, as HdrHistogram: 99.9 % of 1000
  // must be 999 values, not 1000 because 0.999 is not a binary fraction.
  const double share =
      std::nextafter(std::clamp(percent, 0.0, 100.0), -1.0) / 100.0;
  const int64_t wanted =
      std::max<int64_t>(1, std::ceil(share * static_cast<double>(count_)));
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= wanted) return HighestEquivalent(ValueAt(i));
  }
  return Max();
}

int64_t Histogram::CountAtOrBelow(int64_t value) const {
  if (value < 0) return 0;
  const size_t end = std::min<size_t>(IndexOf(value) + 1, counts_.size());
  int64_t seen = 0;
  for (size_t i = 0; i < end; ++i) seen += counts_[i];
  return seen;
}

std::string Histogram::PercentileText(double unit, int ticks) const {
  std::string text =
      absl::StrFormat("%12s %14s %10s %14s\n\n", "Value", "Percentile",
                      "TotalCount", "1/(1-Percentile)");
  int64_t seen = 0;
  double level = 0;
  for (size_t i = 0; i < counts_.size() && seen < count_; ++i) {
    if (counts_[i] == 0) continue;
    seen += counts_[i];
    const double value = HighestEquivalent(ValueAt(i)) / unit;
    // A slot with many values stands for every level that it covers.
    while (100.0 * seen / count_ >= level && level < 100) {
      absl::StrAppendFormat(&text, "%12.*f %2.12f %10d %14.2f\n",
                            options_.digits, value, level / 100, seen,
                            1 / (1 - level / 100));
      const double halvings = std::floor(std::log2(100 / (100 - level))) + 1;
      level += 100 / (ticks * std::exp2(halvings));
      if (seen == count_) break;
    }
  }
  if (count_ > 0) {
    absl::StrAppendFormat(&text, "%12.*f %2.12f %10d\n", options_.digits,
                          Max() / unit, 1.0, count_);
  }
  const int64_t half = sub_buckets_ / 2;
  absl::StrAppendFormat(&text,
                        "#[Mean    = %12.*f, StdDeviation   = %12.*f]\n"
                        "#[Max     = %12.*f, Total count    = %12d]\n"
                        "#[Buckets = %12d, SubBuckets     = %12d]\n",
                        options_.digits, Mean() / unit, options_.digits,
                        StdDev() / unit, options_.digits, Max() / unit, count_,
                        static_cast<int64_t>(counts_.size()) / half - 1,
                        sub_buckets_);
  return text;
}

}  // namespace attnd::client
