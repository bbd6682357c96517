#include "kernels/linear_normaliser.h"

#include <algorithm>
#include <cmath>

namespace attnd {

void LinearNormaliser::Select(const LinearPlan& plan, const HeadEncoder* head,
                              const LinearWalk& walk, double decay_sum) {
  kind_ = plan.problem().options.normaliser;
  walk_ = &walk;
  value_dim_ = plan.state_shape().value_dim;
  rate_ = 0;
  source_ = -1;
  if (head != nullptr && !head->exact_rates().empty()) {
    rate_ = head->exact_rates()[0];
    source_ = head->chain_sources()[0];
  }
  key_ = 0;
  sums_.assign(1, decay_sum);
}

void LinearNormaliser::Follow(int64_t key, int64_t count) {
  if (kind_ != LinearOptions::Normaliser::kRetNet) return;
  double sum = sums_.back();
  key_ = key;
  sums_.assign(1, sum);
  for (int64_t j = key; j < key + count; ++j) {
    double lag = 0;
    if (source_ >= 0 && j > 0) lag = walk_->KeyLag(source_, j, j - 1);
    if (source_ >= 0 && j == 0 && walk_->has_start()) {
      lag = walk_->KeyLagOfStart(source_, 0);
    }
    sum = sum * std::exp(-rate_ * lag) + 1;
    sums_.push_back(sum);
  }
}

double LinearNormaliser::Factor(int64_t i, float ones) const {
  if (kind_ == LinearOptions::Normaliser::kSum) {
    return std::abs(ones) < kLeastSum ? 0 : 1 / static_cast<double>(ones);
  }
  const int64_t seen = walk_->Seen(i);
  double lag = 0;
  if (source_ >= 0 && seen > 0) lag = walk_->QueryLag(source_, i, seen - 1);
  if (source_ >= 0 && seen == 0 && walk_->has_start()) {
    lag = walk_->QueryLagOfStart(source_, i);
  }
  const double decays = sums_[seen - key_] * std::exp(-rate_ * lag);
  if (decays == 0) return 1;
  const double root = std::sqrt(decays);
  const double total = std::abs(ones / root);
  // A NaN stays one.
  return 1 / root /
         (total > kMaxRetNetSum ? kMaxRetNetSum
          : total < 1           ? 1
                                : total);
}

void LinearNormaliser::Divide(int64_t i, float ones, float* values) const {
  if (kind_ == LinearOptions::Normaliser::kNone) return;
  // As a float it may be infinite where the values are 0.
  const double by = Factor(i, ones);
  for (int64_t c = 0; c < value_dim_; ++c) {
    values[c] = static_cast<float>(values[c] * by);
  }
}

}  // namespace attnd
