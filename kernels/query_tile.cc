#include "kernels/query_tile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/absolute_rows.h"
#include "kernels/bias.h"
#include "kernels/chains.h"
#include "kernels/query_temperature.h"
#include "kernels/rotation.h"
#include "kernels/small_product.h"

namespace attnd {
namespace {

constexpr int64_t kHalf = kMaxTileRows / 2;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

}  // namespace

void QueryTile::Start(const Plan& plan, const Place& place, KeyPack& pack) {
  const AttentionProblem& problem = plan.problem();
  plan_ = &plan;
  item_ = &plan.item(place.item);
  place_ = place;
  batch_ = plan.batch(place.item);
  dim_ = PaddedDim(problem.query.shape().cols);
  value_dim_ = PaddedDim(problem.value.shape().cols);
  const Encoder* encoder = plan.encoder(place.item);
  bias_.Start(plan, place.item, place.head, place.first, place.rows);
  started_[0] = started_[1] = false;

  float* queries = queries_.Reserve(kMaxTileRows * dim_);
  float* sums = sums_.Reserve(kMaxTileRows * kSumLanes);
  float* raw = raw_.Reserve(std::max(2 * dim_, value_dim_));
  logits_.Reserve(kMaxTileRows * kMaxTileKeys);
  values_.Reserve(kMaxTileRows * value_dim_);
  std::fill(max_, max_ + kMaxTileRows, kMinusInfinity);
  std::fill(sums, sums + place.rows * kSumLanes, 0.0f);

  const HeadEncoder* head = pack.head();
  const int64_t group = problem.query.shape().heads / problem.key.shape().heads;
  const bool absolute = encoder != nullptr && !encoder->absolute().empty();
  const bool turns =
      head != nullptr && head->table_size() > 0 && !head->pairwise();
  const float* adjacent = nullptr;
  if (head == nullptr && encoder == nullptr && item_->query_order.empty() &&
      problem.query.rows_adjacent()) {
    adjacent = problem.query.FloatRow(batch_, place.head,
                                      item_->QueryRow(place.first));
  }
  if (adjacent != nullptr) {
    EncodePlainRows(adjacent, place.rows, problem.query.shape().cols, dim_,
                    problem.scale, queries);
  }
  for (int64_t r = 0; adjacent == nullptr && r < place.rows; ++r) {
    const int64_t i = place.first + r;
    const float* row = absolute ? nullptr
                                : problem.query.FloatRow(batch_, place.head,
                                                         item_->QueryRow(i));
    if (row == nullptr) {
      problem.query.LoadRow(batch_, place.head, item_->QueryRow(i), raw);
      row = raw;
    }
    if (absolute) {
      encoder->absolute().AddToRow(
          true, static_cast<int>(place.head / group),
          QueryPlace(problem, place.item, item_->QueryRow(i)),
          &absolute_scratch_, raw);
    }
    float scale = problem.scale;
    if (encoder != nullptr && encoder->spec().temperature) {
      scale = static_cast<float>(
          scale * TemperatureFactor(*encoder->spec().temperature,
                                    encoder->ratio(), *item_, i));
    }
    const float* cosine = turns ? pack.axes().QueryPhases(i) : nullptr;
    const float* sine = turns ? cosine + head->table_size() : nullptr;
    EncodeRow(head, true, cosine, sine, scale, row, problem.query.shape().cols,
              dim_, raw + dim_, queries + r * dim_);
  }
  // Products pad the rows of a tile, or of its second half.
  const int64_t padded =
      place.rows > kHalf ? kMaxTileRows : PaddedRows(place.rows);
  std::fill(queries + place.rows * dim_, queries + padded * dim_, 0.0f);
  if (head != nullptr && head->one_sided() && !head->pairwise()) {
    decayed_.Start(*encoder, pack, place.first, place.rows, queries);
  }
  prunes_ = CanPrune(plan);
  if (prunes_) {
    pruning_.Start(plan, place.item, place.head, place.first, place.rows,
                   queries, pack, bias_.gates());
    for (int64_t r = 0; r < place.rows; ++r) {
      reference_[r] = static_cast<float>(bias_.Reference(place.first + r));
    }
  }
}

int64_t QueryTile::Width(const KeyPack& pack, int64_t first, int64_t key,
                         int64_t keys) const {
  const HeadEncoder* head = pack.head();
  if (head == nullptr || !head->one_sided()) return TileKeys(keys);
  const int64_t width =
      TileKeys(std::min(keys, kReferenceKeys - key % kReferenceKeys));
  return head->pairwise() || decayed_.After(first, pack.Reference(key))
             ? width
             : std::min<int64_t>(width, kKeyBlock);
}

// The union of what rows [row, row + rows) of an Advance see, in whole groups
// of columns.
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

// Whether our own products, which leave out what no row of a group sees, beat
// the library's. In cycles of one multiply-add of 16 lanes, as measured on
// AVX-512: see README.md.
bool QueryTile::Small(const Step& step) const {
  constexpr double kLibraryCall = 2000, kOwnCall = 60, kOwnSlowness = 1.2;
  if (step.keys > 2 * kKeyBlock) return false;
  int64_t pairs = 0;
  for (int64_t r = 0; r < step.rows; r += kProductRows) {
    const int64_t rows = std::min(kProductRows, step.rows - r);
    const Interval columns = Columns(r, rows);
    pairs += rows * (columns.end - columns.begin);
  }
  const double library = static_cast<double>(PaddedRows(step.rows)) *
                         static_cast<double>(step.keys * dim_) / 16;
  const double own = static_cast<double>(pairs * dim_) / 16;
  return kOwnSlowness * own + kOwnCall < library + kLibraryCall;
}

void QueryTile::SmallLogits(const Step& step, const float* queries,
                            const float* packed) {
  for (int64_t r = 0; r < step.rows; r += kProductRows) {
    const int64_t rows = std::min(kProductRows, step.rows - r);
    const Interval columns = Columns(r, rows);
    for (int64_t block = columns.begin / kKeyBlock * kKeyBlock;
         block < columns.end; block += kKeyBlock) {
      const int64_t begin = std::max(columns.begin, block);
      const int64_t end = std::min<int64_t>(columns.end, block + kKeyBlock);
      Multiply({.a = queries + r * dim_,
                .a_stride = dim_,
                .b = packed + block * dim_ + (begin - block),
                .b_stride = kKeyBlock,
                .c = logits_.data() + r * step.keys + begin,
                .c_stride = step.keys,
                .rows = rows,
                .depth = dim_,
                .columns = end - begin});
    }
  }
}

void QueryTile::SmallValues(const Step& step, const float* values,
                            bool accumulate) {
  for (int64_t r = 0; r < step.rows; r += kProductRows) {
    const int64_t rows = std::min(kProductRows, step.rows - r);
    Interval keys = Columns(r, rows);
    keys.end = std::min(keys.end, item_->key_rows - step.key);
    Multiply({.a = logits_.data() + r * step.keys + keys.begin,
              .a_stride = step.keys,
              .b = values + keys.begin * value_dim_,
              .b_stride = value_dim_,
              .c = values_.data() + (step.first + r) * value_dim_,
              .c_stride = value_dim_,
              .rows = rows,
              .depth = std::max<int64_t>(0, keys.end - keys.begin),
              .columns = value_dim_,
              .accumulate = accumulate});
  }
}

absl::Status QueryTile::FillLogits(TileGemm& gemm, KeyPack& pack,
                                   const Step& step, bool small) {
  const HeadEncoder* head = pack.head();
  const bool pairwise = head != nullptr && head->pairwise();
  const float *queries = nullptr, *packed = nullptr;
  if (head == nullptr || !head->one_sided()) {
    queries = queries_.data() + step.first * dim_;
  } else if (!pairwise &&
             decayed_.After(step.first, pack.Reference(step.key))) {
    queries = decayed_.MovedTo(step.first, step.rows, pack.Reference(step.key));
  } else if (!pairwise && step.keys == kKeyBlock &&
             decayed_.After(step.first, pack.BlockEnd(step.key))) {
    queries = decayed_.MovedTo(step.first, step.rows, pack.BlockEnd(step.key));
    packed = pack.KeysAtBlockEnd(step.key);
  }
  if (queries != nullptr && !pairwise) {
    if (packed == nullptr) {
      pack.EnsureKeys(step.key, step.key + step.keys);
      packed = pack.Keys(step.key);
    }
    if (small) {
      SmallLogits(step, queries, packed);
      return absl::OkStatus();
    }
    return gemm.QueryKey(PaddedRows(step.rows), static_cast<int>(step.keys),
                         dim_, queries, packed, logits_.data());
  }
  pairs_.Fill(*plan_, *plan_->encoder(place_.item), pack,
              {.first = place_.first + step.first,
               .offset = step.first,
               .count = step.rows,
               .queries = queries_.data() + step.first * dim_,
               .stride = dim_,
               .decayed = pairwise ? nullptr : &decayed_,
               .begin = begin_,
               .end = end_},
              step.key, step.keys, logits_.data());
  // Rows of padding take part in the next product: keep them finite.
  std::fill(logits_.data() + step.rows * step.keys,
            logits_.data() + PaddedRows(step.rows) * step.keys, 0.0f);
  return absl::OkStatus();
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
}

absl::Status QueryTile::Advance(TileGemm& gemm, KeyPack& pack, const Step& step,
                                const OutputBuffers& out) {
  const auto [first, rows, key, keys, ragged, prefix] = step;
  float* logits = logits_.data();
  FindColumns(step);
  const bool small = Small(step);
  absl::Status status = FillLogits(gemm, pack, step, small);
  if (!status.ok()) return status;
  const bool split = bias_.Apply(first, rows, key, keys, begin_, end_, logits);
  if (!item_->row_limit.empty()) HideLaterRows(step);
  if (!out.scores.empty() || !out.weights.empty()) {
    WriteScores(step, split, out);
  }

  const int columns = static_cast<int>(small ? Columns(0, rows).end : keys);
  const SoftmaxTile tile{.logits = logits,
                         .rows = static_cast<int>(rows),
                         .stride = static_cast<int>(keys),
                         .columns = columns,
                         .begin = ragged ? begin_ : nullptr,
                         .end = ragged ? end_ : nullptr,
                         .column_bias = split ? bias_.column() : nullptr,
                         .row_bias = split ? bias_.row() : nullptr,
                         .max = max_ + first,
                         .sums = sums_.data() + first * kSumLanes,
                         .rescale = rescale_};
  const bool rescale = UpdateSoftmax(tile);
  if (prunes_) RaisePruning(step.first, step.rows);
  const int64_t half = first / kHalf;
  float* values = values_.data() + first * value_dim_;
  const bool accumulate = started_[half];
  if (rescale && accumulate) {
    ScaleRows(values, static_cast<int>(rows), value_dim_, rescale_);
  }
  started_[half] = true;
  if (rows > kHalf) started_[1] = true;
  if (value_dim_ == 0) return absl::OkStatus();
  if (small) {
    const int64_t last = std::min(key + keys, item_->key_rows);
    SmallValues(step, pack.Values(key, last), accumulate);
    return absl::OkStatus();
  }
  // Rows beyond `rows` hold products of zero queries: finite, and never read.
  return gemm.WeightValue(PaddedRows(rows), static_cast<int>(keys), value_dim_,
                          logits, pack.Values(step.key, step.key + step.keys),
                          accumulate, values);
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

void QueryTile::WriteScores(const Step& step, bool split,
                            const OutputBuffers& out) const {
  const auto [first, rows, key, keys, ragged, prefix] = step;
  const int64_t width = plan_->problem().key.shape().rows;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t i = place_.first + first + r;
    const double reference = bias_.Reference(i);
    const double row_bias = split ? bias_.row()[r] : 0.0;
    const float* row = logits_.data() + r * keys;
    const int64_t index = RowIndex(first + r) * width;
    for (int64_t c = begin_[r]; c < end_[r]; ++c) {
      const double column_bias = split ? bias_.column()[c] : 0.0;
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
  return (batch_ * q.heads + place_.head) * q.rows +
         item_->QueryRow(place_.first + row);
}

void QueryTile::Finish(const KeyPack& pack, const OutputBuffers& out) {
  const AttentionProblem& problem = plan_->problem();
  const Shape4& q = problem.query.shape();
  const int64_t dim = problem.value.shape().cols;
  const bool heads_outer = problem.query.layout() == Layout::kBHLD;
  float* discarded = raw_.data();
  for (int64_t r = 0; r < place_.rows; ++r) {
    const int64_t i = place_.first + r;
    const int64_t query_row = item_->QueryRow(i);
    const int64_t output_row =
        heads_outer ? RowIndex(r)
                    : (batch_ * q.rows + query_row) * q.heads + place_.head;
    float* row =
        out.output.empty() ? discarded : out.output.data() + output_row * dim;
    float sum = NormaliseRow(values_.data() + r * value_dim_,
                             out.output.empty() ? 0 : dim,
                             sums_.data() + r * kSumLanes, row);
    // Finite logits beyond f32's range are not the same as seeing no key.
    const bool overflown = sum == 0 && SeesKey(i);
    if (overflown) {
      sum = std::numeric_limits<float>::quiet_NaN();
      if (!out.output.empty()) std::fill(row, row + dim, sum);
    }
    if (!out.output.empty() && !pack.non_finite().empty()) {
      MarkNonFinite(pack, r, row);
    }
    if (!out.lse.empty()) {
      out.lse[RowIndex(r)] =
          sum == 0 ? kMinusInfinity
                   : static_cast<float>(max_[r] + std::log(double{sum}) +
                                        bias_.Reference(i));
    }
    if (!out.weights.empty()) {
      const int64_t width = problem.key.shape().rows;
      float* weights = out.weights.data() + RowIndex(r) * width;
      WeightsFromLogits(weights, width, max_[r], sum, weights);
      for (int64_t j = item_->begin[i]; overflown && j < item_->end[i]; ++j) {
        if (Sees(i, j)) weights[item_->KeyRow(j)] = sum;
      }
    }
  }
}

// Neither the mask nor a bias of -inf hides the key.
bool QueryTile::Sees(int64_t i, int64_t j) const {
  const TensorRef& bias = plan_->problem().bias;
  return item_->Sees(i, j) &&
         (bias.shape() == Shape4{} ||
          BiasElement(bias, batch_, place_.head, item_->QueryRow(i),
                      item_->KeyRow(j)) != kMinusInfinity);
}

bool QueryTile::SeesKey(int64_t i) const {
  for (int64_t j = item_->begin[i]; j < item_->end[i]; ++j) {
    if (Sees(i, j)) return true;
  }
  return false;
}

void QueryTile::MarkNonFinite(const KeyPack& pack, int64_t row,
                              float* out) const {
  const int64_t i = place_.first + row;
  for (size_t c = 0; c < pack.non_finite().size(); ++c) {
    const std::vector<int32_t>& keys = pack.non_finite()[c];
    const auto end = std::lower_bound(keys.begin(), keys.end(), item_->end[i]);
    const auto begin = std::lower_bound(keys.begin(), end, item_->begin[i]);
    if (std::any_of(begin, end, [&](int32_t j) { return Sees(i, j); })) {
      out[c] = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

int64_t QueryTile::scratch_bytes() const {
  return static_cast<int64_t>(sizeof(float)) *
             (queries_.capacity() + logits_.capacity() + values_.capacity() +
              sums_.capacity() + raw_.capacity()) +
         decayed_.scratch_bytes() + pairs_.scratch_bytes() +
         bias_.scratch_bytes();
}

}  // namespace attnd
