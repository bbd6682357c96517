#include "kernels/key_pack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/absolute_rows.h"
#include "kernels/block_pack.h"
#include "kernels/chains.h"
#include "kernels/gemm.h"
#include "kernels/rotation.h"

namespace attnd {
namespace {

int64_t RoundUpToBlock(int64_t keys) {
  return (keys + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
}

}  // namespace

void KeyPack::Select(const Plan& plan, int64_t number, int64_t kv_head) {
  if (identity_ == plan.identity() && number_ == number &&
      kv_head_ == kv_head) {
    plan_ = &plan;
    return;
  }
  identity_ = plan.identity();
  plan_ = &plan;
  item_ = &plan.item(number);
  number_ = number;
  batch_ = plan.batch(number);
  kv_head_ = kv_head;
  const Encoder* encoder = plan.encoder(number);
  head_ = encoder == nullptr ? nullptr : &encoder->head(kv_head);
  if (head_ != nullptr && head_->identity()) head_ = nullptr;
  axes_.Select(plan, number, kv_head, true);
  const AttentionProblem& problem = plan.problem();
  dim_ = PaddedDim(problem.query.shape().cols);
  value_dim_ = PaddedDim(ValueColumns(problem));
  const int64_t keys = RoundUpToBlock(item_->key_rows);
  rows_.Reserve((kKeyBlock + kPhaseRows) * dim_);
  keys_state_.assign(keys / kKeyBlock, State::kNone);
  values_state_.assign(keys / kKeyBlock, ValueState::kNone);
  const bool adjacent = keys > 0 && item_->keys_adjacent();
  keys_in_order_ = adjacent;
  const TensorRef& value = problem.value;
  const bool dense =
      value.shape().cols == value_dim_ && adjacent && value.rows_adjacent();
  values_in_place_ =
      dense ? value.FloatRow(batch_, kv_head_, item_->KeyRow(0)) : nullptr;
  const TensorRef& key = problem.key;
  const bool plain = key.shape().cols == dim_ && adjacent &&
                     key.rows_adjacent() &&
                     (head_ == nullptr || head_->half_split_planes() == 0) &&
                     (encoder == nullptr || encoder->absolute().empty());
  plain_keys_ =
      plain ? key.FloatRow(batch_, kv_head_, item_->KeyRow(0)) : nullptr;
  half_state_.assign(keys / kKeyBlock, {});
  norms_.assign(keys / kKeyBlock, -1);
  for (Raw& raw : raw_) raw.first = -1;
  for (Raw& kept : grouped_) kept.first = -1;
  non_finite_.clear();
  FindObserved();
}

// Mask bytes of a key's values; null without a value mask.
const char* KeyPack::ValueMask(int64_t key) const {
  const AttentionProblem& problem = plan_->problem();
  if (problem.value_mask.empty()) return nullptr;
  const Shape4& v = problem.value.shape();
  return problem.value_mask.data() +
         (batch_ * v.rows + item_->KeyRow(key)) * v.cols;
}

void KeyPack::FindObserved() {
  if (plan_->problem().value_mask.empty()) return;
  const int64_t dim = plan_->problem().value.shape().cols;
  observed_.assign(dim, false);
  for (int64_t j = 0; j < item_->key_rows; ++j) {
    const char* mask = ValueMask(j);
    for (int64_t c = 0; c < dim; ++c) {
      if (mask[c] != 0) observed_[c] = true;
    }
  }
}

int64_t KeyPack::Reference(int64_t first) const {
  return LastKey(first / kReferenceKeys * kReferenceKeys, kReferenceKeys);
}

const float* KeyPack::Values(int64_t first, int64_t last) {
  bool in_place = values_in_place_ != nullptr && last <= item_->key_rows;
  for (int64_t b = first; in_place && b < last; b += kKeyBlock) {
    in_place = FiniteInPlace(b);
  }
  if (in_place) return values_in_place_ + first * value_dim_;
  values_.Reserve(static_cast<int64_t>(values_state_.size()) * kKeyBlock *
                  value_dim_);
  for (int64_t block = first; block < last; block += kKeyBlock) {
    ValueState& state = values_state_[block / kKeyBlock];
    if (state != ValueState::kPacked) {
      PackValues(block, values_.data() + block * value_dim_);
    }
    state = ValueState::kPacked;
  }
  return values_.data() + first * value_dim_;
}

// A product would spread what is not finite over rows that do not see it.
bool KeyPack::FiniteInPlace(int64_t first) {
  ValueState& state = values_state_[first / kKeyBlock];
  if (state == ValueState::kNone) {
    const float* values = values_in_place_ + first * value_dim_;
    const int64_t rows = std::min<int64_t>(kKeyBlock, item_->key_rows - first);
    if (FiniteValues(values, rows * value_dim_)) state = ValueState::kInPlace;
  }
  return state == ValueState::kInPlace;
}

void KeyPack::EnsureKeys(int64_t first, int64_t last) {
  for (int64_t block = first; block < last; block += kKeyBlock) {
    State& state = keys_state_[block / kKeyBlock];
    if (state == State::kPacked) continue;
    PackKeys(block, Block(block));
    state = State::kPacked;
  }
}

float* KeyPack::Block(int64_t first) {
  return keys_.Reserve(static_cast<int64_t>(keys_state_.size()) * kKeyBlock *
                       dim_) +
         first * dim_;
}

void KeyPack::PackKeys(int64_t first, float* block) {
  if (head_ != nullptr && head_->one_sided()) {
    MoveToReference(first, Reference(first), block);
  } else {
    EncodeBlock(first, block);
  }
}

void KeyPack::EnsureHalfKeys(int64_t first, int64_t last) {
  const auto blocks = static_cast<int64_t>(half_state_.size());
  half_keys_.Reserve(blocks * kKeyBlock * Bf16Depth(dim_));
  float* block = unrounded_.Reserve(kKeyBlock * std::max(dim_, value_dim_));
  for (int64_t key = first; key < last; key += kKeyBlock) {
    HalfState& state = half_state_[key / kKeyBlock];
    if (state.keys) continue;
    PackKeys(key, block);
    PackBf16(block, kKeyBlock, dim_, kKeyBlock,
             half_keys_.data() + key * Bf16Depth(dim_));
    state.keys = true;
  }
}

const uint16_t* KeyPack::HalfKeysAtLast(int64_t first, int64_t keys) {
  uint16_t* half = half_at_last_.Reserve(kMovedKeys * Bf16Depth(dim_));
  const float* moved = KeysAtLast(first, keys);
  for (int64_t k = 0; k < keys; k += kKeyBlock) {
    PackBf16(moved + k * dim_, kKeyBlock, dim_, kKeyBlock,
             half + k * Bf16Depth(dim_));
  }
  return half;
}

void KeyPack::EnsureHalfValues(int64_t first, int64_t last) {
  const auto blocks = static_cast<int64_t>(half_state_.size());
  const int64_t columns = (value_dim_ + kKeyBlock - 1) / kKeyBlock;
  half_values_.Reserve(columns * blocks * kKeyBlock * kKeyBlock);
  float* packed = unrounded_.Reserve(kKeyBlock * std::max(dim_, value_dim_));
  for (int64_t key = first; key < last; key += kKeyBlock) {
    HalfState& state = half_state_[key / kKeyBlock];
    if (state.values) continue;
    const float* rows = packed;
    if (values_in_place_ != nullptr && key + kKeyBlock <= item_->key_rows &&
        FiniteInPlace(key)) {
      rows = values_in_place_ + key * value_dim_;
    } else {
      PackValues(key, packed);
    }
    for (int64_t b = 0; b < columns; ++b) {
      PackBf16(
          rows + b * kKeyBlock, value_dim_, kKeyBlock,
          std::min<int64_t>(kKeyBlock, value_dim_ - b * kKeyBlock),
          half_values_.data() + (b * blocks * kKeyBlock + key) * kKeyBlock);
    }
    state.values = true;
  }
}

void KeyPack::MoveToReference(int64_t first, int64_t reference, float* block) {
  const float* grouped = GroupedBlock(first);
  const int sources = axes_.sources();
  float* factors = factors_.Reserve(FactorCount(*head_) + kKeyGroup);
  lags_.Reserve(sources);
  for (int64_t g = 0; g < kKeyBlock; g += kKeyGroup) {
    const int64_t last = std::min(first + g + kKeyGroup, item_->key_rows) - 1;
    for (int s = 0; s < sources; ++s) {
      // Groups beyond the last key hold zeros; any lag serves them.
      lags_.Set(s, std::max(0.0, axes_.KeyMinusKey(s, reference, last)));
    }
    MakeFactors(*head_, lags_, false, factors);
    AdvanceKeys(*head_, factors, grouped + g, kKeyBlock, dim_, kKeyGroup,
                block + g, kKeyBlock);
  }
}

// Columns beyond the last key are zeros; any lag serves them.
const float* KeyPack::GroupedBlock(int64_t first) {
  for (Raw& kept : grouped_) {
    if (kept.first == first) return kept.block.data();
  }
  Raw& kept = grouped_[next_grouped_];
  next_grouped_ = (next_grouped_ + 1) % static_cast<int>(grouped_.size());
  const float* raw = RawBlock(first);
  float* out = kept.block.Reserve(kKeyBlock * dim_);
  lags_.Reserve(axes_.sources() * kKeyBlock);
  for (int s = 0; s < axes_.sources(); ++s) {
    for (int64_t j = 0; j < kKeyBlock; ++j) {
      const int64_t key = std::min(first + j, item_->key_rows - 1);
      const int64_t last =
          std::min(first + j / kKeyGroup * kKeyGroup + kKeyGroup,
                   item_->key_rows) -
          1;
      lags_.Set(s * kKeyBlock + j,
                std::max(0.0, axes_.KeyMinusKey(s, last, key)));
    }
  }
  AdvanceKeysByColumn(*head_, lags_, false, raw, kKeyBlock, dim_, kKeyBlock,
                      out, kKeyBlock);
  kept.first = first;
  return out;
}

const float* KeyPack::KeysAtLast(int64_t first, int64_t keys) {
  float* moved = at_last_.Reserve(kMovedKeys * dim_);
  const int64_t last = LastKey(first, keys);
  for (int64_t k = 0; k < keys; k += kKeyBlock) {
    MoveToReference(first + k, last, moved + k * dim_);
  }
  return moved;
}

const float* KeyPack::RawBlock(int64_t first) {
  State& state = keys_state_[first / kKeyBlock];
  if (state != State::kPacked) {
    float* block = Block(first);
    if (state == State::kNone) EncodeBlock(first, block);
    state = State::kRaw;
    return block;
  }
  for (Raw& raw : raw_) {
    if (raw.first == first) return raw.block.data();
  }
  Raw& raw = raw_[next_raw_];
  next_raw_ = (next_raw_ + 1) % static_cast<int>(raw_.size());
  raw.first = first;
  EncodeBlock(first, raw.block.Reserve(kKeyBlock * dim_));
  return raw.block.data();
}

double KeyPack::Norm(int64_t first) {
  double& norm = norms_[first / kKeyBlock];
  if (norm >= 0) return norm;
  const float* block = nullptr;
  if (head_ != nullptr && head_->one_sided()) {
    block = RawBlock(first);
  } else {
    EnsureKeys(first, first + kKeyBlock);
    block = Keys(first);
  }
  float squares[kKeyBlock] = {};
  for (int64_t p = 0; p < dim_; ++p) {
    for (int64_t j = 0; j < kKeyBlock; ++j) {
      squares[j] += block[p * kKeyBlock + j] * block[p * kKeyBlock + j];
    }
  }
  norm = 0;
  for (const float square : squares) {
    norm = std::isfinite(square) ? std::max(norm, std::sqrt(double{square}))
                                 : std::numeric_limits<double>::infinity();
  }
  return norm;
}

// f32 keys in the order of the request.
bool KeyPack::EncodeAtOnce(int64_t first, int64_t last) {
  if (head_ == nullptr || !keys_in_order_) return false;
  const TensorRef& key = plan_->problem().key;
  const float* src = key.FloatRow(batch_, kv_head_, item_->KeyRow(first));
  if (src == nullptr) return false;
  axes_.Encode({.head = head_,
                .src = src,
                .stride = key.row_stride_bytes() / 4,
                .rows = last - first,
                .dim = key.shape().cols,
                .padded = dim_,
                .scratch = rows_.data() + kKeyBlock * dim_,
                .dst = rows_.data()},
               first);
  return true;
}

// Rotated keys of one block in packed order.
void KeyPack::EncodeBlock(int64_t first, float* block) {
  const TensorRef& key = plan_->problem().key;
  const int64_t dim = key.shape().cols;
  const Encoder* encoder = plan_->encoder(number_);
  const Absolute* absolute = encoder == nullptr || encoder->absolute().empty()
                                 ? nullptr
                                 : &encoder->absolute();
  const int64_t last = std::min(first + kKeyBlock, item_->key_rows);
  if (plain_keys_ != nullptr &&
      FiniteValues(plain_keys_ + first * dim_, (last - first) * dim_)) {
    PackBlock(plain_keys_ + first * dim_, last - first, dim_, block);
    return;
  }
  if (absolute == nullptr && EncodeAtOnce(first, last)) {
    PackBlock(rows_.data(), last - first, dim_, block);
    return;
  }
  float* rows = rows_.data();
  float* raw = rows + kKeyBlock * dim_;
  float* scratch = raw + dim_;
  const bool turns = head_ != nullptr && head_->turns();
  for (int64_t j = first; j < last; ++j) {
    // Also of the next block, which comes next.
    const int64_t soon = std::min(j + kEncodedRowsAhead, item_->key_rows - 1);
    key.PrefetchRow(batch_, kv_head_, item_->KeyRow(soon));
    const float* row = absolute == nullptr
                           ? key.FloatRow(batch_, kv_head_, item_->KeyRow(j))
                           : nullptr;
    if (row == nullptr) {
      key.LoadRow(batch_, kv_head_, item_->KeyRow(j), raw);
      row = raw;
    }
    if (absolute != nullptr) {
      absolute->AddToRow(false, static_cast<int>(kv_head_),
                         KeyEvent(plan_->problem(), number_, *item_, j),
                         &absolute_scratch_, raw);
    }
    const float* phases = turns ? axes_.KeyPhases(j) : nullptr;
    EncodeRow(head_, false, phases, 1.0f, row, dim, dim_, scratch,
              rows + (j - first) * dim_);
  }
  PackBlock(rows, last - first, dim_, block);
}

void KeyPack::PackValues(int64_t first, float* block) {
  if (value_dim_ == 0) return;
  const TensorRef& value = plan_->problem().value;
  const int64_t dim = value.shape().cols;
  const int64_t last = std::min(first + kKeyBlock, item_->key_rows);
  float* out = block;
  for (int64_t j = first; j < last; ++j, out += value_dim_) {
    value.LoadRow(batch_, kv_head_, item_->KeyRow(j), out);
    std::fill(out + dim, out + value_dim_, 0.0f);
    if (const char* mask = ValueMask(j); mask != nullptr) {
      for (int64_t c = 0; c < dim; ++c) {
        if (mask[c] == 0) out[c] = 0;
        out[dim + c] = mask[c] == 0 ? 0.0f : 1.0f;
      }
    }
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
  std::fill(out, block + kKeyBlock * value_dim_, 0.0f);
}

int64_t KeyPack::scratch_bytes() const {
  return axes_.scratch_bytes() +
         static_cast<int64_t>(sizeof(double) * norms_.capacity()) +
         static_cast<int64_t>(sizeof(uint16_t)) *
             (half_keys_.capacity() + half_values_.capacity() +
              half_at_last_.capacity()) +
         static_cast<int64_t>(sizeof(float)) *
             (keys_.capacity() + values_.capacity() + rows_.capacity() +
              at_last_.capacity() + factors_.capacity() +
              unrounded_.capacity() +
              static_cast<int64_t>(grouped_.size()) *
                  grouped_[0].block.capacity() +
              static_cast<int64_t>(raw_.size()) * raw_[0].block.capacity()) +
         lags_.scratch_bytes();
}

}  // namespace attnd
