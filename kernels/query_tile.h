// Up to 128 queries of one head on their way through the keys: encoded queries,
// running softmax, output accumulator. query_tile_start.cc has what happens
// before the first key, query_tile_finish.cc what happens after the last,
// query_tile_products.cc and query_tile_bf16.cc the products between.
#ifndef ATTND_KERNELS_QUERY_TILE_H_
#define ATTND_KERNELS_QUERY_TILE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/channel_rows.h"
#include "kernels/decayed_queries.h"
#include "kernels/gemm.h"
#include "kernels/key_pack.h"
#include "kernels/pair_tiles.h"
#include "kernels/plan.h"
#include "kernels/pruning.h"
#include "kernels/small_product.h"
#include "kernels/softmax.h"
#include "kernels/tensor.h"
#include "kernels/tile_bias.h"
#include "kernels/top_keys.h"

namespace attnd {

// Rows of a tile in two halves of 64: near the edge of what is visible the
// halves go on alone, so that less than 64 hidden keys are multiplied per row.
class QueryTile {
 public:
  // Where the rows stand. `first` counts in the item's time order.
  struct Place {
    int64_t item = 0;
    int64_t head = 0;  // query head
    int64_t first = 0;
    int64_t rows = 0;  // 1 to kMaxTileRows
  };

  // Encodes the queries of `place` and empties the state.
  void Start(const Plan& plan, const Place& place, KeyPack& pack);

  // Rows [first, first + rows) of the tile against keys [key, key + keys) of
  // the pack.
  struct Step {
    int64_t first = 0;  // 0 or 64
    int64_t rows = 0;
    int64_t key = 0;
    int64_t keys = 0;     // a TileKeys value
    bool ragged = false;  // rows see only part of the keys
    bool prefix = false;  // before the gap (visibility.h), else behind it
  };
  // Scores go to `out` if it wants them.
  absl::Status Advance(TileGemm& gemm, KeyPack& pack, const Step& step,
                       const OutputBuffers& out);

  // Keys that rows from `first` on can meet in one product, at most `keys` from
  // `key` on. Under a one-sided encoding these share a reference; where the
  // rows are not all after it, kMovedKeys are taken that they are after, or
  // blocks one by one, so that those before the rows are products still.
  int64_t Width(const KeyPack& pack, int64_t first, int64_t key,
                int64_t keys) const;

  // Whether the rows of a step may leave out its keys under the plan's
  // tolerance, by what they have seen so far. Counts what that can lose.
  bool Prune(const Step& step) {
    return prunes_ && pruning_.Skip(step.first, step.rows, step.key, step.keys);
  }
  bool prunes() const { return prunes_; }
  double lost_mass_bound() const {
    return prunes_ ? pruning_.lost_mass_bound() : 0;
  }

  // Divides by the sums and writes what `out` wants, but for the next two.
  void Finish(const KeyPack& pack, const OutputBuffers& out);

  // Whether the keys must pass once more, now that maxima and sums are known:
  // for the weight that keys received, and for channels that a row's maximum
  // drowned. Then Revisit with every step, and FinishAgain.
  bool NeedsSecondPass(const OutputBuffers& out) const;
  absl::Status Revisit(TileGemm& gemm, KeyPack& pack, const Step& step,
                       const OutputBuffers& out);
  void FinishAgain(const KeyPack& pack, const OutputBuffers& out);

  int64_t scratch_bytes() const;

 private:
  struct Interval {
    int64_t begin = 0, end = 0;
  };

  bool EncodeAtOnce(KeyPack& pack, float* raw, float* queries);
  void EncodeRowByRow(KeyPack& pack, float* raw, float* queries);
  void FindColumns(const Step& step);
  bool Small(const Step& step) const;
  Interval Columns(int64_t row, int64_t rows) const;
  void SmallLogits(const Step& step, const float* queries, const float* packed);
  void SmallValues(const Step& step, const float* values, bool accumulate);
  absl::Status FillLogits(TileGemm& gemm, KeyPack& pack, const Step& step);
  absl::Status AddValues(TileGemm& gemm, KeyPack& pack, const Step& step,
                         bool rescale);
  void StartHalves(int64_t rows, bool decayed);
  absl::Status HalfLogits(TileGemm& gemm, KeyPack& pack, const Step& step,
                          const float* queries, bool at_last);
  absl::Status AddHalfValues(TileGemm& gemm, KeyPack& pack, const Step& step,
                             bool rescale, bool accumulate);
  void GatherHalfValues();
  absl::Status MakeLogits(TileGemm& gemm, KeyPack& pack, const Step& step);
  SoftmaxTile Tile(const Step& step);
  void HideLaterRows(const Step& step);
  void RaisePruning(int64_t first, int64_t rows);
  void RecordLogits(const Step& step, const OutputBuffers& out);
  bool Sees(int64_t i, int64_t j) const;
  bool SeesKey(int64_t i) const;
  float TakeSink(int64_t row, double reference);
  bool FinishAtOnce(const KeyPack& pack, const OutputBuffers& out);
  void FinishRow(int64_t row, double reference, float sink, const KeyPack& pack,
                 const OutputBuffers& out);
  void AverageChannels(int64_t row, float sink, const KeyPack& pack,
                       float* out);
  void MarkNonFinite(const KeyPack& pack, int64_t row, float* out) const;
  float Entropy(int64_t row, float key_sum, float sum) const;
  void WriteWeights(int64_t row, float sum, bool overflown, float* weights);
  void WriteTopKeys(int64_t row, float sum, const OutputBuffers& out);
  int64_t RowIndex(int64_t row) const;   // in [B,Hq,Lq]
  int64_t OutputRow(int64_t row) const;  // in the query's layout

  const Plan* plan_ = nullptr;
  const ItemGeometry* item_ = nullptr;
  Place place_;
  int64_t batch_ = 0;  // of the item's tensors
  TileBias bias_;
  int64_t dim_ = 0, value_dim_ = 0;   // padded
  bool started_[2] = {false, false};  // the half's accumulator holds something
  AlignedBuffer queries_;             // encoded
  DecayedQueries decayed_;
  PairTiles pairs_;
  // Where logits themselves are asked for, they are summed more exactly than
  // output and weights need.
  bool exact_ = false;
  bool few_ = false;  // so few queries that keys are read where they lie
  bool prunes_ = false;
  Pruning pruning_;
  float reference_[kMaxTileRows];  // of the biases, where the plan prunes
  AbsoluteScratch absolute_scratch_;
  AlignedBuffer logits_, values_, sums_, moments_, raw_;
  // Products in bf16: queries and exponentials, and outputs in blocks of 64
  // columns while they are summed.
  bool half_ = false;
  HalfBuffer half_queries_, half_weights_;
  AlignedBuffer value_blocks_;
  bool split_ = false;  // bias_.column() and row() belong to the logits
  bool small_ = false;  // our own products, not the library's
  TopKeys top_keys_;
  ChannelRows channels_;
  alignas(64) float max_[kMaxTileRows];
  alignas(64) float share_[kMaxTileRows];  // 1 / sum, once finished
  alignas(64) float rescale_[kMaxTileRows];
  // Visible keys of the rows of one Advance.
  int32_t begin_[kMaxTileRows], end_[kMaxTileRows];
  // What rows that our own products take together see, in whole groups of
  // columns.
  Interval seen_[kMaxTileRows / kProductRows];
};

}  // namespace attnd

#endif  // ATTND_KERNELS_QUERY_TILE_H_
