#include "kernels/query_tile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "kernels/absolute_rows.h"
#include "kernels/bias.h"
#include "kernels/chains.h"
#include "kernels/query_temperature.h"
#include "kernels/rotation.h"
#include "kernels/small_product.h"
#include "kernels/softcap.h"

namespace attnd {
namespace {

constexpr int64_t kHalf = kMaxTileRows / 2;
// Queries of a kv head that do not repay the packing of its keys.
constexpr int64_t kFewQueries = 4;
// Fewer keys, or fewer queries of a kv head, are multiplied in f32: rounding
// and packing would cost more than the products save.
constexpr int64_t kLeastHalfKeys = 64, kLeastHalfQueries = 32;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

}  // namespace

void QueryTile::Start(const Plan& plan, const Place& place, KeyPack& pack) {
  const AttentionProblem& problem = plan.problem();
  plan_ = &plan;
  item_ = &plan.item(place.item);
  place_ = place;
  batch_ = plan.batch(place.item);
  dim_ = PaddedDim(problem.query.shape().cols);
  value_dim_ = PaddedDim(ValueColumns(problem));
  bias_.Start(plan, place.item, place.head, place.first, place.rows);
  started_[0] = started_[1] = false;

  float* queries = queries_.Reserve(kMaxTileRows * dim_);
  float* sums = sums_.Reserve(kMaxTileRows * kSumLanes);
  float* raw = raw_.Reserve(
      std::max({kPhaseRows * dim_, value_dim_, problem.value.shape().cols}));
  logits_.Reserve(kMaxTileRows * kMaxTileKeys);
  values_.Reserve(kMaxTileRows * value_dim_);
  std::fill(max_, max_ + kMaxTileRows, kMinusInfinity);
  std::fill(sums, sums + place.rows * kSumLanes, 0.0f);
  if (problem.outputs.entropy) {
    float* moments = moments_.Reserve(kMaxTileRows * kSumLanes);
    std::fill(moments, moments + place.rows * kSumLanes, 0.0f);
  }
  top_keys_.Start(place.rows, std::min(problem.outputs.top_k, item_->key_rows));
  channels_.Start();

  const HeadEncoder* head = pack.head();
  const int64_t group = problem.query.shape().heads / problem.key.shape().heads;
  if (!EncodeAtOnce(pack, raw, queries)) EncodeRowByRow(pack, raw, queries);
  // Products pad the rows of a tile, or of its second half.
  const int64_t padded =
      place.rows > kHalf ? kMaxTileRows : PaddedRows(place.rows);
  std::fill(queries + place.rows * dim_, queries + padded * dim_, 0.0f);
  const bool decayed =
      head != nullptr && head->one_sided() && !head->pairwise();
  if (decayed) {
    decayed_.Start(pack, place.first, place.rows, queries);
  }
  exact_ = problem.outputs.lse || problem.outputs.scores;
  few_ = item_->query_rows * group <= kFewQueries;
  half_ = plan.bf16() && item_->key_rows >= kLeastHalfKeys &&
          item_->query_rows * group >= kLeastHalfQueries;
  if (half_) StartHalves(padded, decayed);
  prunes_ = CanPrune(plan);
  if (prunes_) {
    pruning_.Start(plan, place.item, place.head, place.first, place.rows,
                   queries, pack, bias_.gates());
    for (int64_t r = 0; r < place.rows; ++r) {
      reference_[r] = static_cast<float>(bias_.Reference(place.first + r));
    }
  }
}

// f32 queries in the order of the request.
bool QueryTile::EncodeAtOnce(KeyPack& pack, float* raw, float* queries) {
  const AttentionProblem& problem = plan_->problem();
  const Encoder* encoder = plan_->encoder(place_.item);
  if (!item_->query_order.empty() ||
      (encoder != nullptr &&
       (!encoder->absolute().empty() || encoder->spec().temperature))) {
    return false;
  }
  const HeadEncoder* head = pack.head();
  const float* src = problem.query.FloatRow(batch_, place_.head,
                                            item_->QueryRow(place_.first));
  if (src == nullptr) return false;
  const int64_t dim = problem.query.shape().cols;
  if (head == nullptr || head->half_split_planes() == 0) {
    if (!problem.query.rows_adjacent()) return false;
    EncodePlainRows(src, place_.rows, dim, dim_, problem.scale, queries);
    return true;
  }
  pack.axes().Encode({.head = head,
                      .query = true,
                      .src = src,
                      .stride = problem.query.row_stride_bytes() / 4,
                      .rows = place_.rows,
                      .dim = dim,
                      .padded = dim_,
                      .scale = problem.scale,
                      .scratch = raw,
                      .dst = queries},
                     place_.first);
  return true;
}

void QueryTile::EncodeRowByRow(KeyPack& pack, float* raw, float* queries) {
  const AttentionProblem& problem = plan_->problem();
  const Encoder* encoder = plan_->encoder(place_.item);
  const HeadEncoder* head = pack.head();
  const int64_t group = problem.query.shape().heads / problem.key.shape().heads;
  const bool absolute = encoder != nullptr && !encoder->absolute().empty();
  const bool turns = head != nullptr && head->turns();
  for (int64_t r = 0; r < place_.rows; ++r) {
    const int64_t i = place_.first + r;
    const int64_t soon =
        place_.first + std::min(r + kEncodedRowsAhead, place_.rows - 1);
    problem.query.PrefetchRow(batch_, place_.head, item_->QueryRow(soon));
    const float* row = absolute ? nullptr
                                : problem.query.FloatRow(batch_, place_.head,
                                                         item_->QueryRow(i));
    if (row == nullptr) {
      problem.query.LoadRow(batch_, place_.head, item_->QueryRow(i), raw);
      row = raw;
    }
    if (absolute) {
      encoder->absolute().AddToRow(true, static_cast<int>(place_.head / group),
                                   QueryEvent(problem, place_.item, *item_, i),
                                   &absolute_scratch_, raw);
    }
    float scale = problem.scale;
    if (encoder != nullptr && encoder->spec().temperature) {
      scale = static_cast<float>(
          scale * TemperatureFactor(*encoder->spec().temperature,
                                    encoder->ratio(), *item_, i));
    }
    const float* phases = turns ? pack.axes().QueryPhases(i) : nullptr;
    EncodeRow(head, true, phases, scale, row, problem.query.shape().cols, dim_,
              raw + dim_, queries + r * dim_);
  }
}

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

// Whether our own products, which leave out what no row of a group sees, beat
// the library's. In cycles of one multiply-add of 16 lanes, as measured on
// AVX-512: see README.md.
bool QueryTile::Small(const Step& step) const {
  constexpr double kLibraryCall = 2000, kOwnCall = 60, kOwnSlowness = 1.2;
  int64_t pairs = 0;
  for (int64_t r = 0; r < step.rows; r += kProductRows) {
    const int64_t rows = std::min(kProductRows, step.rows - r);
    const Interval& columns = seen_[r / kProductRows];
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
    const Interval& columns = seen_[r / kProductRows];
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
                .columns = end - begin,
                .exact = exact_});
    }
  }
}

void QueryTile::SmallValues(const Step& step, const float* values,
                            bool accumulate) {
  for (int64_t r = 0; r < step.rows; r += kProductRows) {
    const int64_t rows = std::min(kProductRows, step.rows - r);
    Interval keys = seen_[r / kProductRows];
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
                                   const Step& step) {
  const HeadEncoder* head = pack.head();
  const bool pairwise = head != nullptr && head->pairwise();
  const float* queries = nullptr;
  bool at_last = false;
  if (head == nullptr || !head->one_sided()) {
    queries = queries_.data() + step.first * dim_;
  } else if (!pairwise &&
             decayed_.After(step.first, pack.Reference(step.key))) {
    queries = decayed_.MovedTo(step.first, step.rows, pack.Reference(step.key));
  } else if (!pairwise && step.keys <= kMovedKeys &&
             decayed_.After(step.first, pack.LastKey(step.key, step.keys))) {
    queries = decayed_.MovedTo(step.first, step.rows,
                               pack.LastKey(step.key, step.keys));
    at_last = true;
  }
  const float* in_place = pack.KeysInPlace(step.key);
  if (few_ && in_place != nullptr) {
    MultiplyTransposed(
        {.a = queries,
         .a_stride = dim_,
         .b = in_place,
         .b_stride = dim_,
         .c = logits_.data(),
         .c_stride = step.keys,
         .rows = step.rows,
         .depth = dim_,
         .columns = std::min(step.keys, item_->key_rows - step.key)});
    return absl::OkStatus();
  }
  if (queries != nullptr && !pairwise) {
    if (half_ && !exact_) {
      return HalfLogits(gemm, pack, step, queries, at_last);
    }
    if (!at_last) pack.EnsureKeys(step.key, step.key + step.keys);
    const float* packed =
        at_last ? pack.KeysAtLast(step.key, step.keys) : pack.Keys(step.key);
    if (small_ || (exact_ && !half_)) {
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
               .exact = exact_,
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

absl::Status QueryTile::AddValues(TileGemm& gemm, KeyPack& pack,
                                  const Step& step, bool rescale) {
  if (value_dim_ == 0) return absl::OkStatus();
  const bool accumulate = started_[step.first / kHalf];
  if (half_) {
    return AddHalfValues(gemm, pack, step, rescale && accumulate, accumulate);
  }
  float* values = values_.data() + step.first * value_dim_;
  if (rescale && accumulate) {
    ScaleRows(values, static_cast<int>(step.rows), value_dim_, rescale_);
  }
  if (small_) {
    const int64_t last = std::min(step.key + step.keys, item_->key_rows);
    SmallValues(step, pack.Values(step.key, last), accumulate);
    return absl::OkStatus();
  }
  // Rows beyond `rows` hold products of zero queries: finite, and never read.
  return gemm.WeightValue(PaddedRows(step.rows), static_cast<int>(step.keys),
                          value_dim_, logits_.data(),
                          pack.Values(step.key, step.key + step.keys),
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

// Hands the logits to those outputs that need each of them.
void QueryTile::RecordLogits(const Step& step, const OutputBuffers& out) {
  const bool top = !out.top_rows.empty();
  if (out.scores.empty() && out.weights.empty() && !top) return;
  const int64_t width = plan_->problem().key.shape().rows;
  for (int64_t r = 0; r < step.rows; ++r) {
    const int64_t row = step.first + r;
    const double reference = bias_.Reference(place_.first + row);
    const double row_bias = split_ ? bias_.row()[r] : 0.0;
    const float* logits = logits_.data() + r * step.keys;
    const int64_t index = RowIndex(row) * width;
    for (int64_t c = begin_[r]; c < end_[r]; ++c) {
      const double column_bias = split_ ? bias_.column()[c] : 0.0;
      const double logit = logits[c] + column_bias + row_bias;
      const int64_t key = item_->KeyRow(step.key + c);
      if (!out.scores.empty()) {
        out.scores[index + key] = static_cast<float>(logit + reference);
      }
      // Relative to the row's reference, as the softmax sees it; Finish makes
      // them weights.
      if (!out.weights.empty()) {
        out.weights[index + key] = static_cast<float>(logit);
      }
      if (top) {
        top_keys_.Offer(row, static_cast<float>(logit),
                        static_cast<int32_t>(key));
      }
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
