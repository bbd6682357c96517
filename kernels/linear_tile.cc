#include "kernels/linear_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/feature_map.h"
#include "kernels/rotation.h"
#include "kernels/small_product.h"

namespace attnd {

void LoadQuery(const LinearPlan& plan, const LinearTile::Place& place,
               const LinearWalk& walk, int64_t r, float* raw) {
  const TensorRef& query = plan.problem().attention.query;
  query.LoadRow(place.batch, place.head, walk.QueryRow(place.query + r), raw);
  ApplyFeatureMap(plan.problem().options.feature_map, raw, query.shape().cols);
}

// Rotated and scaled queries, decayed from key `reference` on; late parts take
// them without the decay.
void LinearTile::Encode(const LinearPlan& plan, const Place& place,
                        LinearWalk& walk, const LinearDecays& decays,
                        int64_t reference, bool late) {
  const int64_t dim = plan.state_shape().dim;
  const HeadEncoder* head = decays.head();
  dim_ = PaddedDim(dim);
  width_ = plan.width();
  float* raw = raw_.Reserve(2 * dim_);
  float* out = advanced_.Reserve(kMaxTileRows * dim_);
  sums_.Reserve(kMaxTileRows * width_);
  const bool turns = head != nullptr && head->turns();
  const int sources = walk.sources();
  lags_.Resize(place.rows * sources);
  for (int64_t r = 0; r < place.rows; ++r) {
    const int64_t i = place.query + r;
    LoadQuery(plan, place, walk, r, raw);
    if (i + kLinearChunk < walk.queries()) {
      plan.problem().attention.query.PrefetchRow(
          place.batch, place.head, walk.QueryRow(i + kLinearChunk));
    }
    const float* phases = turns ? walk.QueryPhases(i) : nullptr;
    EncodeRow(head, true, phases, plan.problem().attention.scale, raw, dim,
              dim_, raw + dim_, out + r * dim_);
    for (int s = 0; s < sources; ++s) {
      lags_.Set(r * sources + s, reference < 0
                                     ? walk.QueryLagOfStart(s, i)
                                     : walk.QueryLag(s, i, reference));
    }
  }
  if (late) late_.Take(out, place.rows, dim_);
  decays.AdvanceQueries(lags_, sources, place.rows, dim_, out);
  std::fill(out + place.rows * dim_, out + PaddedRows(place.rows) * dim_, 0.0f);
}

absl::Status LinearTile::ReadSums(int64_t rows, const LinearSums& sums,
                                  TileGemm& gemm) {
  return gemm.WeightValue(PaddedRows(rows), static_cast<int>(dim_), width_,
                          advanced_.data(), sums.rounded(), false,
                          sums_.data());
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
  return ReadSums(place.rows, sums, gemm);
}

absl::Status LinearTile::Inside(const LinearPlan& plan, const Place& place,
                                LinearWalk& walk, LinearChunk& chunk,
                                const LinearSums& sums, TileGemm& gemm) {
  LinearDecays& decays = chunk.decays();
  const bool late = !chunk.late_parts().empty();
  Encode(plan, place, walk, decays, chunk.key(), late);
  absl::Status status = ReadSums(place.rows, sums, gemm);
  if (!status.ok()) return status;
  AddChunk(place, walk, chunk);
  for (const auto& [channel, key] : chunk.non_finite()) {
    for (int64_t r = 0; r < place.rows; ++r) {
      if (key < seen_[r]) {
        row(r)[channel] = std::numeric_limits<float>::quiet_NaN();
      }
    }
  }
  return absl::OkStatus();
}

void LinearTile::AddChunk(const Place& place, LinearWalk& walk,
                          const LinearChunk& chunk) {
  seen_.resize(place.rows);
  for (int64_t r = 0; r < place.rows; ++r) {
    seen_[r] = static_cast<int32_t>(walk.Seen(place.query + r) - chunk.key());
  }
  float* logits = logits_.Reserve(kMaxTileRows * kLinearChunk);
  for (int64_t r = 0; r < place.rows; r += kProductRows) {
    const int64_t rows = std::min(kProductRows, place.rows - r);
    Multiply({.a = advanced_.data() + r * dim_,
              .a_stride = dim_,
              .b = chunk.moved(),
              .b_stride = kLinearChunk,
              .c = logits + r * kLinearChunk,
              .c_stride = kLinearChunk,
              .rows = rows,
              .depth = dim_,
              .columns = (seen_[r + rows - 1] + kProductColumns - 1) /
                         kProductColumns * kProductColumns});
  }
  if (!chunk.late_parts().empty()) {
    late_.Add(chunk.decays(), walk, chunk.key(), place.query, seen_.data(),
              chunk.late_parts(), chunk.still(), logits);
  }
  for (int64_t r = 0; r < place.rows; r += kProductRows) {
    const int64_t rows = std::min(kProductRows, place.rows - r);
    const int64_t depth = seen_[r + rows - 1];
    // Assigned, not multiplied: hidden keys may hold anything.
    for (int64_t i = r; i < r + rows; ++i) {
      float* row = logits + i * kLinearChunk;
      std::fill(row + seen_[i], row + depth, 0.0f);
    }
    Multiply({.a = logits + r * kLinearChunk,
              .a_stride = kLinearChunk,
              .b = chunk.values(),
              .b_stride = width_,
              .c = row(r),
              .c_stride = width_,
              .rows = rows,
              .depth = depth,
              .columns = width_,
              .accumulate = true});
  }
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
