// The products of a tile with operands rounded to bf16. Values stay in blocks
// of 64 columns, one product each, because oneDNN's packed format cannot hold
// wider ones block of keys by block of keys.
#include <algorithm>

#include "kernels/float16.h"
#include "kernels/query_tile.h"

namespace attnd {
namespace {

constexpr int64_t kHalf = kMaxTileRows / 2;

}  // namespace

// Queries that decay are rounded when they stand at their keys' reference.
void QueryTile::StartHalves(int64_t rows, bool decayed) {
  uint16_t* queries = half_queries_.Reserve(kMaxTileRows * dim_);
  half_weights_.Reserve(kMaxTileRows * kMaxTileKeys);
  value_blocks_.Reserve(kMaxTileRows * value_dim_);
  if (!decayed) {
    HalvesFromFloats(DType::kBF16, queries_.data(), rows * dim_, queries);
  }
}

absl::Status QueryTile::HalfLogits(TileGemm& gemm, KeyPack& pack,
                                   const Step& step, const float* queries,
                                   bool at_last) {
  const int rows = PaddedRows(step.rows);
  const uint16_t* keys = nullptr;
  if (at_last) {
    keys = pack.HalfKeysAtLast(step.key, step.keys);
  } else {
    pack.EnsureHalfKeys(step.key, step.key + step.keys);
    keys = pack.HalfKeys(step.key);
  }
  const uint16_t* halves = half_queries_.data() + step.first * dim_;
  if (queries != queries_.data() + step.first * dim_) {
    HalvesFromFloats(DType::kBF16, queries, rows * dim_, half_queries_.data());
    halves = half_queries_.data();
  }
  return gemm.QueryKey(rows, static_cast<int>(step.keys), dim_, halves, keys,
                       logits_.data());
}

absl::Status QueryTile::AddHalfValues(TileGemm& gemm, KeyPack& pack,
                                      const Step& step, bool rescale,
                                      bool accumulate) {
  const int rows = PaddedRows(step.rows);
  // Rows of padding take part in the product: keep them finite.
  std::fill(half_weights_.data() + step.rows * step.keys,
            half_weights_.data() + rows * step.keys, uint16_t{0});
  pack.EnsureHalfValues(step.key, step.key + step.keys);
  for (int64_t c = 0; c < value_dim_; c += kKeyBlock) {
    const int64_t width = std::min<int64_t>(kKeyBlock, value_dim_ - c);
    float* values =
        value_blocks_.data() + c * kMaxTileRows + step.first * width;
    if (rescale) {
      ScaleRows(values, static_cast<int>(step.rows), width, rescale_);
    }
    absl::Status status = gemm.WeightValue(
        rows, static_cast<int>(step.keys), width, half_weights_.data(),
        pack.HalfValues(step.key, c / kKeyBlock), accumulate, values);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Row after row, as in f32.
void QueryTile::GatherHalfValues() {
  for (int64_t c = 0; c < value_dim_; c += kKeyBlock) {
    const int64_t width = std::min<int64_t>(kKeyBlock, value_dim_ - c);
    const float* block = value_blocks_.data() + c * kMaxTileRows;
    for (int64_t r = 0; r < place_.rows; ++r) {
      if (!started_[r / kHalf]) continue;
      std::copy_n(block + r * width, width,
                  values_.data() + r * value_dim_ + c);
    }
  }
}

}  // namespace attnd
