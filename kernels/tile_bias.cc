#include "kernels/tile_bias.h"

#include <algorithm>

namespace attnd {

void TileBias::Start(const Plan& plan, int64_t number, int64_t head,
                     int64_t first, int64_t rows) {
  const AttentionProblem& problem = plan.problem();
  const bool same_head = plan_ == &plan && number_ == number && head_ == head &&
                         identity_ == plan.identity();
  plan_ = &plan;
  identity_ = plan.identity();
  item_ = &plan.item(number);
  encoder_ = plan.encoder(number);
  number_ = number;
  batch_ = plan.batch(number);
  head_ = head;
  first_ = first;
  all_rows_ = rows;
  linear_ = {};
  has_gates_ = false;
  has_tensor_ = !(problem.bias.shape() == Shape4{});
  any_ = has_tensor_;
  if (encoder_ == nullptr || !encoder_->has_bias()) return;
  any_ = true;
  const int h = static_cast<int>(head);
  if (encoder_->has_linear_bias()) {
    linear_ = {item_, -encoder_->slope(h) * encoder_->ratio().units_per_tick()};
  }
  has_gates_ = encoder_->gate_weights().any();
  if (has_gates_ && !same_head) {
    gates_.Start(*item_, encoder_->gate_weights(), problem.gates, batch_, head);
  }
  if (!encoder_->lag_bias().empty()) {
    encoder_->lag_bias().StartRows(*item_, first, rows, &lags_);
  }
  if (!encoder_->endpoint_bias().empty()) {
    raw_.resize(problem.query.shape().cols);
    query_factors_.resize(rows);
    for (int64_t r = 0; r < rows; ++r) {
      problem.query.LoadRow(batch_, head, item_->QueryRow(first + r),
                            raw_.data());
      query_factors_[r] = encoder_->endpoint_bias().QueryFactor(h, raw_.data());
    }
  }
}

bool TileBias::Apply(int64_t row, int64_t rows, int64_t key, int64_t keys,
                     const int32_t* begin, const int32_t* end, float* logits) {
  if (!any_) return false;
  const int64_t last = std::min(key + keys, item_->key_rows);
  const bool split = Split(first_ + row, rows, key, last);
  if (encoder_ != nullptr && !encoder_->lag_bias().empty()) {
    encoder_->lag_bias().Prepare(row, rows, key, keys, &lags_);
    encoder_->lag_bias().Add(static_cast<int>(head_), lags_, keys, logits);
  }
  const bool endpoints =
      encoder_ != nullptr && !encoder_->endpoint_bias().empty();
  if (endpoints) KeyFactors(key, last - key);
  const bool relative = linear_.per_tick != 0 || has_gates_;
  if (!endpoints && !has_tensor_ && (!relative || split)) return split;
  for (int64_t r = 0; r < rows; ++r) {
    float* out = logits + r * keys;
    AddInPlace(first_ + row + r, key, begin[r], end[r], split, out);
    if (endpoints) {
      AddEndpointBias(*item_, query_factors_[row + r], key_factors_.data(),
                      first_ + row + r, key, begin[r], end[r], out);
    }
  }
  return split;
}

// Fills column_ and row_ with the sum of what splits; all or nothing.
bool TileBias::Split(int64_t i, int64_t rows, int64_t key, int64_t last) {
  const bool linear = linear_.per_tick != 0;
  if (!linear && !has_gates_) return false;
  if (linear && !linear_.Split(i, rows, key, last, column_, row_)) {
    return false;
  }
  if (!has_gates_) return true;
  float* column = linear ? column_part_ : column_;
  float* row = linear ? row_part_ : row_;
  if (!gates_.Split(i, rows, key, last, column, row)) return false;
  if (linear) {
    for (int64_t c = 0; c < last - key; ++c) column_[c] += column[c];
    for (int64_t r = 0; r < rows; ++r) row_[r] += row[r];
  }
  return true;
}

void TileBias::AddInPlace(int64_t i, int64_t key, int64_t begin, int64_t end,
                          bool split, float* row) {
  if (begin >= end) return;
  if (!split && linear_.per_tick != 0) {
    linear_.AddToRow(i, key, begin, end, row);
  }
  if (!split && has_gates_) gates_.AddToRow(i, key, begin, end, row);
  if (has_tensor_) {
    AddTensorBias(plan_->problem().bias, *item_, batch_, head_,
                  item_->QueryRow(i), key, begin, end, row);
  }
}

void TileBias::KeyFactors(int64_t key, int64_t keys) {
  const AttentionProblem& problem = plan_->problem();
  const int64_t group = problem.query.shape().heads / problem.key.shape().heads;
  key_factors_.resize(keys);
  for (int64_t c = 0; c < keys; ++c) {
    problem.key.LoadRow(batch_, head_ / group, item_->KeyRow(key + c),
                        raw_.data());
    key_factors_[c] = encoder_->endpoint_bias().KeyFactor(
        static_cast<int>(head_), raw_.data());
  }
}

double TileBias::Reference(int64_t i) const {
  double reference = 0;
  if (linear_.per_tick != 0) reference += linear_.Reference(i);
  if (has_gates_) reference += gates_.Reference(i);
  return reference;
}

int64_t TileBias::scratch_bytes() const {
  return gates_.scratch_bytes() + ScratchBytes(lags_) +
         static_cast<int64_t>(
             (query_factors_.capacity() + key_factors_.capacity()) *
                 sizeof(double) +
             raw_.capacity() * sizeof(float));
}

}  // namespace attnd
