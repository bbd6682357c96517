// Up to 128 queries of one head on their way through the keys: encoded queries,
// running softmax, output accumulator.
#ifndef ATTND_KERNELS_QUERY_TILE_H_
#define ATTND_KERNELS_QUERY_TILE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/bias.h"
#include "kernels/gemm.h"
#include "kernels/key_pack.h"
#include "kernels/plan.h"
#include "kernels/softmax.h"
#include "kernels/tensor.h"

namespace attnd {

// Rows of a tile in two halves of 64: near the edge of what is visible the
// halves go on alone, so that less than 64 hidden keys are multiplied per row.
class QueryTile {
 public:
  // Where the rows stand. `first` counts in the item's time order.
  struct Place {
    int64_t batch = 0;
    int64_t head = 0;  // query head
    int64_t first = 0;
    int64_t rows = 0;  // 1 to kMaxTileRows
  };

  // Encodes the queries of `place` and empties the state.
  void Start(const Plan& plan, const Place& place);

  // Rows [first, first + rows) of the tile against keys [key, key + keys) of
  // the pack; keys is a TileKeys value, rows starts at 0 or 64. When `ragged`,
  // rows see only part of the keys. Scores go to `out` if it wants them.
  absl::Status Advance(TileGemm& gemm, const KeyPack& pack, int64_t first,
                       int64_t rows, int64_t key, int64_t keys, bool ragged,
                       const OutputBuffers& out);

  // Divides by the sums and writes output, lse, weights.
  void Finish(const KeyPack& pack, const OutputBuffers& out);

  int64_t scratch_bytes() const;

 private:
  void AddBiases(int64_t first, int64_t rows, int64_t key, int64_t keys,
                 bool split);
  void WriteScores(int64_t first, int64_t rows, int64_t key, int64_t keys,
                   bool split, const OutputBuffers& out) const;
  void MarkNonFinite(const KeyPack& pack, int64_t row, float* out) const;
  int64_t RowIndex(int64_t row) const;  // in [B,Hq,Lq]

  const Plan* plan_ = nullptr;
  const ItemGeometry* item_ = nullptr;
  Place place_;
  LinearBias linear_;
  bool has_tensor_bias_ = false;
  int64_t dim_ = 0, value_dim_ = 0;   // padded
  bool started_[2] = {false, false};  // the half's accumulator holds something
  AlignedBuffer queries_, logits_, values_, sums_, raw_, table_;
  alignas(64) float max_[kMaxTileRows];
  alignas(64) float rescale_[kMaxTileRows];
  alignas(64) float row_bias_[kMaxTileRows];
  alignas(64) float column_bias_[kMaxTileKeys];
  int32_t begin_[kMaxTileRows], end_[kMaxTileRows];  // of one Advance, in keys
};

}  // namespace attnd

#endif  // ATTND_KERNELS_QUERY_TILE_H_
