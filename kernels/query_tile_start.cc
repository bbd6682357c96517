// Queries on their way into a tile.
#include <algorithm>
#include <limits>

#include "kernels/absolute_rows.h"
#include "kernels/query_temperature.h"
#include "kernels/query_tile.h"
#include "kernels/rotation.h"

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

}  // namespace attnd
