#include "kernels/query_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "kernels/softcap.h"

namespace attnd {
namespace {

constexpr int64_t kHalf = kMaxTileRows / 2;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

}  // namespace

int64_t QueryTile::Width(const KeyPack& pack, int64_t first, int64_t key,
                         int64_t keys) const {
  const HeadEncoder* head = pack.head();
  if (head == nullptr || !head->one_sided()) return TileKeys(keys);
  const int64_t width =
      TileKeys(std::min(keys, kReferenceKeys - key % kReferenceKeys));
  if (head->pairwise() || decayed_.After(first, pack.Reference(key))) {
    return width;
  }
  return width >= kMovedKeys &&
                 decayed_.After(first, pack.LastKey(key, kMovedKeys))
             ? kMovedKeys
             : std::min<int64_t>(width, kKeyBlock);
}

void QueryTile::FindColumns(const Step& step) {
  for (int64_t r = 0; r < step.rows; ++r) {
    const int64_t i = place_.first + step.first + r;
    int64_t begin = item_->begin[i], end = item_->end[i];
    if (step.prefix) {
      end = item_->prefix;
    } else if (!item_->gap_end.empty()) {
      begin = item_->gap_end[i];
    }
    begin_[r] = static_cast<int32_t>(
        std::clamp<int64_t>(begin - step.key, 0, step.keys));
    end_[r] =
        static_cast<int32_t>(std::clamp<int64_t>(end - step.key, 0, step.keys));
  }
  for (int64_t r = 0; r < step.rows; r += kProductRows) {
    seen_[r / kProductRows] = Columns(r, std::min(kProductRows, step.rows - r));
  }
}

QueryTile::Interval QueryTile::Columns(int64_t row, int64_t rows) const {
  int64_t begin = kMaxTileKeys, end = 0;
  for (int64_t r = row; r < row + rows; ++r) {
    if (begin_[r] >= end_[r]) continue;
    begin = std::min<int64_t>(begin, begin_[r]);
    end = std::max<int64_t>(end, end_[r]);
  }
  if (begin >= end) return {};
  return {begin / kProductColumns * kProductColumns,
          (end + kProductColumns - 1) / kProductColumns * kProductColumns};
}

// The step's logits, in the order scale, softcap, biases, visibility: what a
// row does not see lies outside its columns or is -inf.
absl::Status QueryTile::MakeLogits(TileGemm& gemm, KeyPack& pack,
                                   const Step& step) {
  FindColumns(step);
  small_ = !half_ && Small(step);
  absl::Status status = FillLogits(gemm, pack, step);
  if (!status.ok()) return status;
  float* logits = logits_.data();
  const std::optional<float>& softcap = plan_->problem().softcap;
  if (softcap) Softcap(*softcap, logits, step.rows * step.keys);
  split_ = bias_.Apply(step.first, step.rows, step.key, step.keys, begin_, end_,
                       logits);
  if (!item_->row_limit.empty()) HideLaterRows(step);
  return absl::OkStatus();
}

SoftmaxTile QueryTile::Tile(const Step& step) {
  const bool moments = plan_->problem().outputs.entropy;
  const int64_t lanes = step.first * kSumLanes;
  int64_t columns = small_ ? 0 : step.keys;
  for (int64_t g = 0; small_ && g * kProductRows < step.rows; ++g) {
    columns = std::max(columns, seen_[g].end);
  }
  return {.logits = logits_.data(),
          .rows = static_cast<int>(step.rows),
          .stride = static_cast<int>(step.keys),
          .columns = static_cast<int>(columns),
          .begin = step.ragged ? begin_ : nullptr,
          .end = step.ragged ? end_ : nullptr,
          .column_bias = split_ ? bias_.column() : nullptr,
          .row_bias = split_ ? bias_.row() : nullptr,
          .max = max_ + step.first,
          .sums = sums_.data() + lanes,
          .moments = moments ? moments_.data() + lanes : nullptr,
          .halves = half_ ? half_weights_.data() : nullptr,
          .rescale = rescale_};
}

absl::Status QueryTile::Advance(TileGemm& gemm, KeyPack& pack, const Step& step,
                                const OutputBuffers& out) {
  absl::Status status = MakeLogits(gemm, pack, step);
  if (!status.ok()) return status;
  RecordLogits(step, out);
  const bool rescale = UpdateSoftmax(Tile(step));
  if (prunes_) RaisePruning(step.first, step.rows);
  status = AddValues(gemm, pack, step, rescale);
  started_[step.first / kHalf] = true;
  if (step.rows > kHalf) started_[1] = true;
  return status;
}

// Causality by index where times do not follow the rows. Assigned, not added:
// what is hidden may be NaN.
void QueryTile::HideLaterRows(const Step& step) {
  for (int64_t r = 0; r < step.rows; ++r) {
    const int32_t limit = item_->row_limit[place_.first + step.first + r];
    float* row = logits_.data() + r * step.keys;
    for (int64_t c = begin_[r]; c < end_[r]; ++c) {
      const int64_t j = step.key + c;
      if (j >= item_->prefix && item_->KeyRow(j) >= limit) {
        row[c] = kMinusInfinity;
      }
    }
  }
}

void QueryTile::RaisePruning(int64_t first, int64_t rows) {
  float lse[kMaxTileRows];
  for (int64_t r = 0; r < rows; ++r) {
    const float* lanes = sums_.data() + (first + r) * kSumLanes;
    const float sum = std::accumulate(lanes, lanes + kSumLanes, 0.0f);
    lse[r] = max_[first + r] + std::log(sum) + reference_[first + r];
  }
  pruning_.Raise(first, rows, lse);
}

// Hands the logits to those outputs that need each of them.
void QueryTile::RecordLogits(const Step& step, const OutputBuffers& out) {
  const bool top = !out.top_rows.empty();
  if (out.scores.empty() && out.weights.empty() && !top) return;
  const int64_t width = plan_->problem().key.shape().rows;
  for (int64_t r = 0; r < step.rows; ++r) {
    const int64_t row = step.first + r;
    const double reference = bias_.Reference(place_.first + row);
    const float row_bias = split_ ? bias_.row()[r] : 0.0f;
    const float* logits = logits_.data() + r * step.keys;
    const int64_t index = RowIndex(row) * width;
    for (int64_t c = begin_[r]; c < end_[r]; ++c) {
      const float column_bias = split_ ? bias_.column()[c] : 0.0f;
      const int64_t key = item_->KeyRow(step.key + c);
      if (!out.scores.empty()) {
        out.scores[index + key] = static_cast<float>(
            double{logits[c]} + column_bias + row_bias + reference);
      }
      // Relative to the row's reference, rounded as the softmax rounds it, or
      // large ones would be more than the maximum; Finish makes them weights.
      const float logit = logits[c] + column_bias + row_bias;
      if (!out.weights.empty()) out.weights[index + key] = logit;
      if (top) top_keys_.Offer(row, logit, static_cast<int32_t>(key));
    }
  }
}

int64_t QueryTile::scratch_bytes() const {
  return static_cast<int64_t>(sizeof(uint16_t)) *
             (half_queries_.capacity() + half_weights_.capacity()) +
         static_cast<int64_t>(sizeof(float)) *
             (value_blocks_.capacity() + queries_.capacity() +
              logits_.capacity() + values_.capacity() + sums_.capacity() +
              moments_.capacity() + raw_.capacity()) +
         decayed_.scratch_bytes() + pairs_.scratch_bytes() +
         bias_.scratch_bytes() + top_keys_.scratch_bytes();
}

}  // namespace attnd
