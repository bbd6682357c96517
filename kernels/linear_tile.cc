#include "kernels/linear_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/feature_map.h"
#include "kernels/rotation.h"

namespace attnd {

void LoadQuery(const LinearPlan& plan, const LinearTile::Place& place,
               const LinearWalk& walk, int64_t r, float* raw) {
  const TensorRef& query = plan.problem().attention.query;
  query.LoadRow(place.batch, place.head, walk.QueryRow(place.query + r), raw);
  ApplyFeatureMap(plan.problem().options.feature_map, raw, query.shape().cols);
}

// Rotated and scaled queries, decayed from key `reference` on; also without the
// decay where late parts need it.
void LinearTile::Encode(const LinearPlan& plan, const Place& place,
                        LinearWalk& walk, const LinearDecays& decays,
                        int64_t reference, bool keep_still) {
  const int64_t dim = plan.state_shape().dim;
  const HeadEncoder* head = decays.head();
  dim_ = PaddedDim(dim);
  width_ = plan.width();
  float* raw = raw_.Reserve(2 * dim_);
  float* out = advanced_.Reserve(kMaxTileRows * dim_);
  if (keep_still) still_.Reserve(kMaxTileRows * dim_);
  sums_.Reserve(kMaxTileRows * width_);
  const bool turns = head != nullptr && head->table_size() > 0;
  const int sources = walk.sources();
  lags_.Resize(sources);
  for (int64_t r = 0; r < place.rows; ++r, out += dim_) {
    const int64_t i = place.query + r;
    LoadQuery(plan, place, walk, r, raw);
    const float* cosine = turns ? walk.QueryPhases(i) : nullptr;
    const float* sine = turns ? cosine + head->table_size() : nullptr;
    EncodeRow(head, true, cosine, sine, plan.problem().attention.scale, raw,
              dim, dim_, raw + dim_, out);
    if (keep_still) std::copy_n(out, dim_, still_.data() + r * dim_);
    for (int s = 0; s < sources; ++s) {
      lags_.Set(s, reference < 0 ? walk.QueryLagOfStart(s, i)
                                 : walk.QueryLag(s, i, reference));
    }
    decays.AdvanceQuery(lags_.hi.data(), lags_.lo.data(), out);
  }
  std::fill(out, advanced_.data() + PaddedRows(place.rows) * dim_, 0.0f);
}

void LinearTile::Clear(const LinearPlan& plan, int64_t rows) {
  width_ = plan.width();
  raw_.Reserve(2 * PaddedDim(plan.state_shape().dim));
  std::fill_n(sums_.Reserve(kMaxTileRows * width_), rows * width_, 0.0f);
}

absl::Status LinearTile::Behind(const LinearPlan& plan, const Place& place,
                                LinearWalk& walk, LinearDecays& decays,
                                int64_t reference, const LinearSums& sums,
                                TileGemm& gemm) {
  Encode(plan, place, walk, decays, reference, false);
  return gemm.WeightValue(PaddedRows(place.rows), static_cast<int>(dim_),
                          width_, advanced_.data(), sums.rounded(), false,
                          sums_.data());
}

absl::Status LinearTile::Inside(const LinearPlan& plan, const Place& place,
                                LinearWalk& walk, LinearChunk& chunk,
                                const LinearSums& sums, TileGemm& gemm) {
  LinearDecays& decays = chunk.decays();
  const bool late = !chunk.late_parts().empty();
  Encode(plan, place, walk, decays, chunk.key(), late);
  absl::Status status =
      gemm.WeightValue(PaddedRows(place.rows), static_cast<int>(dim_), width_,
                       advanced_.data(), sums.rounded(), false, sums_.data());
  if (!status.ok()) return status;
  seen_.resize(place.rows);
  for (int64_t r = 0; r < place.rows; ++r) {
    seen_[r] = static_cast<int32_t>(walk.Seen(place.query + r) - chunk.key());
  }
  if (late)
    decays.Clear(chunk.late_parts(), place.rows, dim_, advanced_.data());
  float* logits = logits_.Reserve(kMaxTileRows * kLinearChunk);
  status = gemm.QueryKey(PaddedRows(place.rows), static_cast<int>(kLinearChunk),
                         dim_, advanced_.data(), chunk.moved(), logits);
  if (!status.ok()) return status;
  if (late) {
    late_.Add(decays, walk, chunk.key(), place.query, place.rows, seen_.data(),
              chunk.late_parts(), still_.data(), dim_, chunk.still(), logits);
  }
  for (int64_t r = 0; r < place.rows; ++r) {
    // Assigned, not multiplied: hidden keys may hold anything.
    float* row = logits + r * kLinearChunk;
    std::fill(row + seen_[r], row + kLinearChunk, 0.0f);
  }
  status =
      gemm.WeightValue(PaddedRows(place.rows), static_cast<int>(kLinearChunk),
                       width_, logits, chunk.values(), true, sums_.data());
  if (!status.ok()) return status;
  for (const auto& [channel, key] : chunk.non_finite()) {
    for (int64_t r = 0; r < place.rows; ++r) {
      if (key < seen_[r]) {
        row(r)[channel] = std::numeric_limits<float>::quiet_NaN();
      }
    }
  }
  return absl::OkStatus();
}

void LinearTile::AddHeld(const LinearPlan& plan, const Place& place,
                         LinearWalk& walk, HeldKeys& held) {
  const int64_t channels = plan.state_shape().value_dim;
  std::vector<float> value(channels);
  for (int64_t r = 0; r < place.rows; ++r) {
    const int64_t i = place.query + r;
    if (walk.Seen(i) == 0 && !walk.has_start()) continue;
    LoadQuery(plan, place, walk, r, raw_.data());
    const float share =
        held.Share(i, raw_.data(), plan.problem().attention.scale);
    held.ShareValue(i, value.data());
    for (int64_t c = 0; c < channels; ++c) row(r)[c] += share * value[c];
    if (plan.ones()) row(r)[channels] += share;
  }
}

}  // namespace attnd
