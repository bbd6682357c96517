#include "kernels/linear_chunk.h"

#include <algorithm>
#include <cmath>

#include "kernels/block_pack.h"
#include "kernels/feature_map.h"
#include "kernels/rotation.h"

namespace attnd {

void LinearChunk::Load(const LinearPlan& plan, int64_t batch, int64_t kv_head,
                       int64_t key, int64_t last_query, LinearWalk& walk,
                       LinearDecays& decays, HeldKeys* held) {
  key_ = key;
  count_ = std::min(kLinearChunk, walk.keys() - key);
  dim_ = PaddedDim(plan.state_shape().dim);
  width_ = plan.width();
  walk_ = &walk;
  decays_ = &decays;
  LoadKeys(plan, batch, kv_head, held);
  LoadValues(plan, batch, kv_head, held);
  FindLateParts(last_query);
  SetLags(key);
  moved_.Reserve(dim_ * kLinearChunk);
  decays.AdvanceKeys(lags_, late_, still_.data(), moved_.data());
}

// A row of the next chunk, if there is one.
void LinearChunk::Prefetch(const TensorRef& rows, int64_t batch,
                           int64_t kv_head, int64_t key) const {
  if (key < walk_->keys()) {
    rows.PrefetchRow(batch, kv_head, walk_->KeyRow(key));
  }
}

void LinearChunk::LoadKeys(const LinearPlan& plan, int64_t batch,
                           int64_t kv_head, HeldKeys* held) {
  const TensorRef& key = plan.problem().attention.key;
  const HeadEncoder* head = decays_->head();
  const int64_t dim = key.shape().cols;
  float* rows = rows_.Reserve(kLinearChunk * dim_);
  float* raw = raw_.Reserve(2 * dim_);
  const bool turns = head != nullptr && head->turns();
  for (int64_t j = 0; j < count_; ++j) {
    if (held != nullptr) {
      held->Event(key_ + j, rows + j * dim_);
      continue;
    }
    key.LoadRow(batch, kv_head, walk_->KeyRow(key_ + j), raw);
    Prefetch(key, batch, kv_head, key_ + j + kLinearChunk);
    ApplyFeatureMap(plan.problem().options.feature_map, raw, dim);
    const float* phases = turns ? walk_->KeyPhases(key_ + j) : nullptr;
    EncodeRow(head, false, phases, 1.0f, raw, dim, dim_, raw + dim_,
              rows + j * dim_);
  }
  PackBlock(rows, count_, dim_, still_.Reserve(dim_ * kLinearChunk));
}

// Null where they have to be copied.
const float* LinearChunk::ValuesInPlace(const LinearPlan& plan, int64_t batch,
                                        int64_t kv_head) const {
  const TensorRef& value = plan.problem().attention.value;
  const int64_t row = walk_->KeyRow(key_);
  if (count_ < kLinearChunk || value.shape().cols != width_ ||
      !value.rows_adjacent()) {
    return nullptr;
  }
  for (int64_t j = 0; j < count_; ++j) {
    if (walk_->KeyRow(key_ + j) != row + j) return nullptr;
    Prefetch(value, batch, kv_head, key_ + j + kLinearChunk);
  }
  const float* first = value.FloatRow(batch, kv_head, row);
  return first != nullptr && FiniteValues(first, count_ * width_) ? first
                                                                  : nullptr;
}

void LinearChunk::LoadValues(const LinearPlan& plan, int64_t batch,
                             int64_t kv_head, HeldKeys* held) {
  const TensorRef& value = plan.problem().attention.value;
  const int64_t dim = value.shape().cols;
  non_finite_.clear();
  value_ = held == nullptr ? ValuesInPlace(plan, batch, kv_head) : nullptr;
  if (value_ != nullptr) return;
  float* out = values_.Reserve(kLinearChunk * width_);
  for (int64_t j = 0; j < count_; ++j, out += width_) {
    if (held != nullptr) {
      held->EventValue(key_ + j, out);
    } else {
      value.LoadRow(batch, kv_head, walk_->KeyRow(key_ + j), out);
    }
    std::fill(out + dim, out + width_, 0.0f);
    if (plan.ones()) out[dim] = 1;
    if (FiniteValues(out, dim)) continue;
    for (int64_t c = 0; c < dim; ++c) {
      if (std::isfinite(out[c])) continue;
      out[c] = 0;
      non_finite_.emplace_back(static_cast<int32_t>(c),
                               static_cast<int32_t>(j));
    }
  }
  std::fill(out, values_.data() + kLinearChunk * width_, 0.0f);
  value_ = values_.data();
}

// Columns beyond the last key are zeros; any lag serves them.
void LinearChunk::SetLags(int64_t reference) {
  const int sources = walk_->sources();
  lags_.Resize(sources * kLinearChunk);
  for (int s = 0; s < sources; ++s) {
    for (int64_t j = 0; j < kLinearChunk; ++j) {
      lags_.Set(s * kLinearChunk + j,
                walk_->KeyLag(s, reference, std::min(key_ + j, end() - 1)));
    }
  }
}

void LinearChunk::FindLateParts(int64_t last_query) {
  late_parts_.clear();
  late_.assign(decays_->parts(), 0);
  const int sources = walk_->sources();
  span_.resize(sources);
  for (int s = 0; s < sources; ++s) {
    span_[s] = walk_->KeyLag(s, end() - 1, key_);
    if (last_query >= 0) {
      span_[s] = std::max(span_[s], walk_->QueryLag(s, last_query, key_));
    }
  }
  for (int part : decays_->live()) {
    if (decays_->MayGrow(part, span_[decays_->SourceOf(part)])) continue;
    late_parts_.push_back(part);
    late_[part] = 1;
  }
}

absl::Status LinearChunk::Sum(TileGemm& gemm) {
  if (!late_parts_.empty()) {
    SetLags(end() - 1);
    decays_->AdvanceParts(lags_, late_parts_, still_.data(), moved_.data());
  }
  return gemm.WeightValue(static_cast<int>(dim_),
                          static_cast<int>(kLinearChunk), width_, moved_.data(),
                          value_, false, delta_.Reserve(dim_ * width_));
}

}  // namespace attnd
