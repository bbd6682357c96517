#include "kernels/key_pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/gemm.h"
#include "kernels/rotation.h"

namespace attnd {
namespace {

int64_t RoundUpToBlock(int64_t keys) {
  return (keys + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
}

void PhasesOfKey(const Encoder& encoder, const ItemGeometry& item, int64_t j,
                 float* cosine, float* sine) {
  if (item.exact) {
    PhaseRow(encoder, item.key_ticks[j], cosine, sine);
  } else {
    PhaseRow(encoder, item.key_real[j] - item.real_reference, cosine, sine);
  }
}

}  // namespace

void KeyPack::Select(const Plan& plan, int64_t batch, int64_t kv_head) {
  if (identity_ == plan.identity() && batch_ == batch && kv_head_ == kv_head) {
    plan_ = &plan;
    return;
  }
  identity_ = plan.identity();
  plan_ = &plan;
  batch_ = batch;
  kv_head_ = kv_head;
  const AttentionProblem& problem = plan.problem();
  dim_ = PaddedDim(problem.query.shape().cols);
  value_dim_ = PaddedDim(problem.value.shape().cols);
  const int64_t keys = RoundUpToBlock(plan.item(batch).key_rows);
  keys_.Reserve(keys * dim_);
  values_.Reserve(keys * value_dim_);
  rows_.Reserve(kKeyBlock * dim_ + std::max(dim_, value_dim_));
  packed_.assign(keys / kKeyBlock, false);
  non_finite_.clear();
}

void KeyPack::Ensure(int64_t first, int64_t last) {
  for (int64_t block = first; block < last; block += kKeyBlock) {
    if (packed_[block / kKeyBlock]) continue;
    PackKeys(block);
    PackValues(block);
    packed_[block / kKeyBlock] = true;
  }
}

void KeyPack::PackKeys(int64_t first) {
  const TensorRef& key = plan_->problem().key;
  const ItemGeometry& item = plan_->item(batch_);
  const Encoder* encoder = plan_->problem().encoder.get();
  if (encoder != nullptr && !encoder->rotates()) encoder = nullptr;
  float* rows = rows_.data();
  float* raw = rows + kKeyBlock * dim_;
  float *cosine = nullptr, *sine = nullptr;
  if (encoder != nullptr) {
    const int64_t stride = TableStride(encoder->planes());
    cosine = table_.Reserve(2 * stride);
    sine = cosine + stride;
  }
  const int64_t last = std::min(first + kKeyBlock, item.key_rows);
  for (int64_t j = first; j < last; ++j) {
    key.LoadRow(batch_, kv_head_, item.KeyRow(j), raw);
    if (encoder != nullptr) PhasesOfKey(*encoder, item, j, cosine, sine);
    EncodeRow(encoder, cosine, sine, 1.0f, raw, key.shape().cols, dim_,
              rows + (j - first) * dim_);
  }
  std::fill(rows + (last - first) * dim_, rows + kKeyBlock * dim_, 0.0f);
  PackBlock(rows, dim_, keys_.data() + first * dim_);
}

void KeyPack::PackValues(int64_t first) {
  const TensorRef& value = plan_->problem().value;
  const ItemGeometry& item = plan_->item(batch_);
  const int64_t dim = value.shape().cols;
  const int64_t last = std::min(first + kKeyBlock, item.key_rows);
  float* out = values_.data() + first * value_dim_;
  for (int64_t j = first; j < last; ++j, out += value_dim_) {
    value.LoadRow(batch_, kv_head_, item.KeyRow(j), out);
    std::fill(out + dim, out + value_dim_, 0.0f);
    // 0 * x is NaN exactly for non-finite x; the sum vectorises.
    float check = 0;
    for (int64_t c = 0; c < dim; ++c) check += out[c] * 0.0f;
    if (check == 0) continue;
    non_finite_.resize(dim);
    for (int64_t c = 0; c < dim; ++c) {
      if (std::isfinite(out[c])) continue;
      out[c] = 0;
      std::vector<int32_t>& keys = non_finite_[c];
      keys.insert(std::upper_bound(keys.begin(), keys.end(), j),
                  static_cast<int32_t>(j));
    }
  }
  std::fill(out, values_.data() + (first + kKeyBlock) * value_dim_, 0.0f);
}

int64_t KeyPack::scratch_bytes() const {
  return static_cast<int64_t>(sizeof(float)) *
         (keys_.capacity() + values_.capacity() + rows_.capacity() +
          table_.capacity());
}

}  // namespace attnd
