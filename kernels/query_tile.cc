#include "kernels/query_tile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/rotation.h"

namespace attnd {
namespace {

constexpr int64_t kHalf = kMaxTileRows / 2;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

bool HasTensorBias(const AttentionProblem& problem) {
  return !(problem.bias.shape() == Shape4{});
}

}  // namespace

void QueryTile::Start(const Plan& plan, const Place& place) {
  const AttentionProblem& problem = plan.problem();
  plan_ = &plan;
  item_ = &plan.item(place.batch);
  place_ = place;
  dim_ = PaddedDim(problem.query.shape().cols);
  value_dim_ = PaddedDim(problem.value.shape().cols);
  has_tensor_bias_ = HasTensorBias(problem);
  const Encoder* encoder = problem.encoder.get();
  linear_ = {};
  if (encoder != nullptr && encoder->has_linear_bias()) {
    linear_ = {item_, -encoder->slope(static_cast<int>(place.head)) *
                          encoder->ratio().units_per_tick()};
  }
  started_[0] = started_[1] = false;

  float* queries = queries_.Reserve(kMaxTileRows * dim_);
  float* sums = sums_.Reserve(kMaxTileRows * kSumLanes);
  float* raw = raw_.Reserve(dim_);
  logits_.Reserve(kMaxTileRows * kMaxTileKeys);
  values_.Reserve(kMaxTileRows * value_dim_);
  std::fill(max_, max_ + kMaxTileRows, kMinusInfinity);
  std::fill(sums, sums + kMaxTileRows * kSumLanes, 0.0f);

  if (encoder != nullptr && !encoder->rotates()) encoder = nullptr;
  float *cosine = nullptr, *sine = nullptr;
  if (encoder != nullptr) {
    const int64_t stride = TableStride(encoder->planes());
    cosine = table_.Reserve(2 * stride);
    sine = cosine + stride;
  }
  for (int64_t r = 0; r < place.rows; ++r) {
    const int64_t i = place.first + r;
    problem.query.LoadRow(place.batch, place.head, item_->QueryRow(i), raw);
    if (encoder != nullptr && item_->exact) {
      PhaseRow(*encoder, item_->query_ticks[i], cosine, sine);
    } else if (encoder != nullptr) {
      PhaseRow(*encoder, item_->query_real[i] - item_->real_reference, cosine,
               sine);
    }
    EncodeRow(encoder, cosine, sine, problem.scale, raw,
              problem.query.shape().cols, dim_, queries + r * dim_);
  }
  std::fill(queries + place.rows * dim_, queries + kMaxTileRows * dim_, 0.0f);
}

absl::Status QueryTile::Advance(TileGemm& gemm, const KeyPack& pack,
                                int64_t first, int64_t rows, int64_t key,
                                int64_t keys, bool ragged,
                                const OutputBuffers& out) {
  const int padded = PaddedRows(rows);
  const int width = static_cast<int>(keys);
  float* logits = logits_.data();
  absl::Status status =
      gemm.QueryKey(padded, width, dim_, queries_.data() + first * dim_,
                    pack.Keys(key), logits);
  if (!status.ok()) return status;

  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = place_.first + first + r;
    begin_[r] = static_cast<int32_t>(
        std::clamp<int64_t>(item_->begin[i] - key, 0, keys));
    end_[r] =
        static_cast<int32_t>(std::clamp<int64_t>(item_->end[i] - key, 0, keys));
  }
  const int64_t last = std::min(key + keys, item_->key_rows);
  const bool split =
      linear_.per_tick != 0 && linear_.Split(place_.first + first, rows, key,
                                             last, column_bias_, row_bias_);
  AddBiases(first, rows, key, keys, split);
  if (!out.scores.empty() || !out.weights.empty()) {
    WriteScores(first, rows, key, keys, split, out);
  }

  const SoftmaxTile tile{.logits = logits,
                         .rows = static_cast<int>(rows),
                         .stride = width,
                         .begin = ragged ? begin_ : nullptr,
                         .end = ragged ? end_ : nullptr,
                         .column_bias = split ? column_bias_ : nullptr,
                         .row_bias = split ? row_bias_ : nullptr,
                         .max = max_ + first,
                         .sums = sums_.data() + first * kSumLanes,
                         .rescale = rescale_};
  const bool rescale = UpdateSoftmax(tile);
  const int64_t half = first / kHalf;
  float* values = values_.data() + first * value_dim_;
  const bool accumulate = started_[half];
  if (rescale && accumulate) {
    ScaleRows(values, static_cast<int>(rows), value_dim_, rescale_);
  }
  started_[half] = true;
  if (rows > kHalf) started_[1] = true;
  if (value_dim_ == 0) return absl::OkStatus();
  // Rows beyond `rows` hold products of zero queries: finite, and never read.
  return gemm.WeightValue(padded, width, value_dim_, logits, pack.Values(key),
                          accumulate, values);
}

void QueryTile::AddBiases(int64_t first, int64_t rows, int64_t key,
                          int64_t keys, bool split) {
  const bool add_linear = linear_.per_tick != 0 && !split;
  if (!add_linear && !has_tensor_bias_) return;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = place_.first + first + r;
    float* row = logits_.data() + r * keys;
    if (add_linear) linear_.AddToRow(i, key, begin_[r], end_[r], row);
    if (has_tensor_bias_) {
      AddTensorBias(plan_->problem().bias, *item_, place_.batch, place_.head,
                    item_->QueryRow(i), key, begin_[r], end_[r], row);
    }
  }
}

void QueryTile::WriteScores(int64_t first, int64_t rows, int64_t key,
                            int64_t keys, bool split,
                            const OutputBuffers& out) const {
  const int64_t width = plan_->problem().key.shape().rows;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = place_.first + first + r;
    const double reference = linear_.per_tick != 0 ? linear_.Reference(i) : 0.0;
    const double row_bias = split ? row_bias_[r] : 0.0;
    const float* row = logits_.data() + r * keys;
    const int64_t index = RowIndex(first + r) * width;
    for (int64_t c = begin_[r]; c < end_[r]; ++c) {
      const double column_bias = split ? column_bias_[c] : 0.0;
      const double logit = row[c] + column_bias + row_bias;
      const int64_t element = index + item_->KeyRow(key + c);
      if (!out.scores.empty()) {
        out.scores[element] = static_cast<float>(logit + reference);
      }
      // Relative to the row's reference, as the softmax sees it; Finish makes
      // them weights.
      if (!out.weights.empty()) {
        out.weights[element] = static_cast<float>(logit);
      }
    }
  }
}

int64_t QueryTile::RowIndex(int64_t row) const {
  const Shape4& q = plan_->problem().query.shape();
  return (place_.batch * q.heads + place_.head) * q.rows +
         item_->QueryRow(place_.first + row);
}

void QueryTile::Finish(const KeyPack& pack, const OutputBuffers& out) {
  const AttentionProblem& problem = plan_->problem();
  const Shape4& q = problem.query.shape();
  const int64_t dim = problem.value.shape().cols;
  const bool heads_outer = problem.query.layout() == Layout::kBHLD;
  float* discarded = raw_.Reserve(value_dim_);
  for (int64_t r = 0; r < place_.rows; ++r) {
    const int64_t i = place_.first + r;
    const int64_t query_row = item_->QueryRow(i);
    const int64_t output_row =
        heads_outer
            ? RowIndex(r)
            : (place_.batch * q.rows + query_row) * q.heads + place_.head;
    float* row =
        out.output.empty() ? discarded : out.output.data() + output_row * dim;
    const float sum = NormaliseRow(values_.data() + r * value_dim_,
                                   out.output.empty() ? 0 : dim,
                                   sums_.data() + r * kSumLanes, row);
    if (!out.output.empty() && !pack.non_finite().empty()) {
      MarkNonFinite(pack, r, row);
    }
    const double reference = linear_.per_tick != 0 ? linear_.Reference(i) : 0.0;
    const float lse =
        sum == 0
            ? kMinusInfinity
            : static_cast<float>(max_[r] + std::log(double{sum}) + reference);
    if (!out.lse.empty()) out.lse[RowIndex(r)] = lse;
    if (!out.weights.empty()) {
      const int64_t width = problem.key.shape().rows;
      float* weights = out.weights.data() + RowIndex(r) * width;
      WeightsFromLogits(weights, width, max_[r], sum, weights);
    }
  }
}

void QueryTile::MarkNonFinite(const KeyPack& pack, int64_t row,
                              float* out) const {
  const int64_t i = place_.first + row;
  const auto hidden = [&](int32_t j) {
    return has_tensor_bias_ &&
           BiasElement(plan_->problem().bias, place_.batch, place_.head,
                       item_->QueryRow(i), item_->KeyRow(j)) == kMinusInfinity;
  };
  for (size_t c = 0; c < pack.non_finite().size(); ++c) {
    const std::vector<int32_t>& keys = pack.non_finite()[c];
    const auto end = std::lower_bound(keys.begin(), keys.end(), item_->end[i]);
    for (auto it = std::lower_bound(keys.begin(), end, item_->begin[i]);
         it != end; ++it) {
      if (hidden(*it)) continue;
      out[c] = std::numeric_limits<float>::quiet_NaN();
      break;
    }
  }
}

int64_t QueryTile::scratch_bytes() const {
  return static_cast<int64_t>(sizeof(float)) *
         (queries_.capacity() + logits_.capacity() + values_.capacity() +
          sums_.capacity() + raw_.capacity() + table_.capacity());
}

}  // namespace attnd
