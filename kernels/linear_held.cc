#include "kernels/linear_held.h"

#include <algorithm>

#include "kernels/feature_map.h"
#include "kernels/gemm.h"
#include "kernels/linear_frame.h"
#include "kernels/phi1.h"
#include "kernels/rotation.h"

namespace attnd {

void HeldKeys::Select(const LinearPlan& plan, int64_t item, int64_t kv_head,
                      const HeadEncoder* head, LinearWalk& walk) {
  plan_ = &plan;
  head_ = head;
  walk_ = &walk;
  item_ = item;
  batch_ = plan.rows().batch(item);
  kv_head_ = kv_head;
  dim_ = plan.state_shape().dim;
  padded_ = PaddedDim(dim_);
  raw_.Reserve(padded_);
  encoded_.Reserve(padded_);
  scratch_.Reserve(padded_);
  row_.resize(padded_);
  moved_.resize(padded_);
  query_.resize(padded_);
  lags_.resize(std::max(1, walk.sources()));
}

// Key -1 is the carried one.
void HeldKeys::Key(int64_t key, float* raw) const {
  if (key < 0) {
    const LinearState& state = *plan_->problem().initial_state;
    std::copy_n(state.held_key.begin() +
                    (item_ * state.shape.kv_heads + kv_head_) * dim_,
                dim_, raw);
    return;
  }
  plan_->problem().attention.key.LoadRow(batch_, kv_head_, walk_->KeyRow(key),
                                         raw);
  ApplyFeatureMap(plan_->problem().options.feature_map, raw, dim_);
}

void HeldKeys::Value(int64_t key, float* value) const {
  const int64_t dim = plan_->state_shape().value_dim;
  if (!Exists(key)) {
    std::fill_n(value, dim, 0.0f);
  } else if (key < 0) {
    const LinearState& state = *plan_->problem().initial_state;
    std::copy_n(state.held_value.begin() +
                    (item_ * state.shape.kv_heads + kv_head_) * dim,
                dim, value);
  } else {
    plan_->problem().attention.value.LoadRow(batch_, kv_head_,
                                             walk_->KeyRow(key), value);
  }
}

void HeldKeys::Encode(bool query, const float* raw, double* row) {
  EncodeRow(head_, query, nullptr, 1.0f, raw, dim_, padded_, scratch_.data(),
            encoded_.data());
  std::copy_n(encoded_.data(), padded_, row);
}

double HeldKeys::GapBeforeKey(int64_t key) const {
  return key < 0 ? plan_->problem().initial_state->held_gap[item_]
                 : walk_->GapBefore(key);
}

void HeldKeys::Event(int64_t m, float* row) {
  const int64_t key = m - 1;
  if (!Exists(key)) {
    std::fill_n(row, padded_, 0.0f);
    return;
  }
  Key(key, raw_.data());
  Encode(false, raw_.data(), row_.data());
  for (int s = 0; s < walk_->sources(); ++s) {
    lags_[s] = key < 0 ? walk_->KeyLagOfStart(s, m) : walk_->KeyLag(s, m, key);
  }
  const double gap = GapBeforeKey(m);
  double weight = gap;
  if (plan_->problem().options.input_rule ==
      LinearOptions::InputRule::kZeroOrderHold) {
    if (head_ != nullptr) {
      AverageRow(*head_, lags_.data(), row_.data(), padded_, moved_.data());
      RotateFrame(*head_, walk_->KeyPoints(m), false, 1, moved_.data());
    } else {
      moved_ = row_;
    }
  } else {
    weight = (GapBeforeKey(key) + gap) / 2;
    moved_ = row_;
    if (head_ != nullptr) {
      RotateFrame(
          *head_,
          key < 0 ? walk_->axes().OriginPoints() : walk_->KeyPoints(key), false,
          1, moved_.data());
      AdvanceFrame(head_, lags_.data(), false, 1, moved_.data());
    }
  }
  for (int64_t c = 0; c < padded_; ++c) {
    row[c] = static_cast<float>(weight * moved_[c]);
  }
}

float HeldKeys::Share(int64_t i, const float* raw, float scale) {
  const int64_t key = walk_->Seen(i) - 1;
  if (!Exists(key)) return 0;
  Encode(true, raw, query_.data());
  Key(key, raw_.data());
  Encode(false, raw_.data(), row_.data());
  for (int s = 0; s < walk_->sources(); ++s) {
    lags_[s] =
        key < 0 ? walk_->QueryLagOfStart(s, i) : walk_->QueryLag(s, i, key);
  }
  double weight = walk_->GapToQuery(i);
  moved_ = row_;
  if (plan_->problem().options.input_rule ==
      LinearOptions::InputRule::kZeroOrderHold) {
    if (head_ != nullptr) {
      AverageRow(*head_, lags_.data(), row_.data(), padded_, moved_.data());
    }
  } else {
    weight = GapBeforeKey(key) / 2;
    if (head_ != nullptr) {
      // Both at their own phases; decays over the lag.
      RotateFrame(
          *head_,
          key < 0 ? walk_->axes().OriginPoints() : walk_->KeyPoints(key), false,
          1, moved_.data());
      AdvanceFrame(head_, lags_.data(), false, 1, moved_.data());
      RotateFrame(*head_, walk_->QueryPoints(i), false, 1, query_.data());
    }
  }
  double dot = 0;
  for (int64_t c = 0; c < padded_; ++c) dot += query_[c] * moved_[c];
  return static_cast<float>(scale * weight * dot);
}

bool HeldKeys::Last(float* key, float* value) {
  const int64_t last = walk_->keys() - 1;
  if (!Exists(last)) return false;
  Key(last, key);
  Value(last, value);
  return true;
}

double HeldKeys::LastGap() const {
  const int64_t last = walk_->keys() - 1;
  return Exists(last) ? GapBeforeKey(last) : 0;
}

}  // namespace attnd
