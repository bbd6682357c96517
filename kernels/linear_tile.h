// Up to 128 queries of one head on their way through what they see: the sums of
// earlier chunks and the keys of one chunk.
#ifndef ATTND_KERNELS_LINEAR_TILE_H_
#define ATTND_KERNELS_LINEAR_TILE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/gemm.h"
#include "kernels/linear_chunk.h"
#include "kernels/linear_held.h"
#include "kernels/linear_late.h"
#include "kernels/linear_plan.h"
#include "kernels/linear_sums.h"
#include "kernels/linear_walk.h"
#include "kernels/tensor.h"

namespace attnd {

class LinearTile {
 public:
  struct Place {
    int64_t batch = 0;
    int64_t head = 0;   // query head
    int64_t query = 0;  // first, in the walk
    int64_t rows = 0;   // 1 to kMaxTileRows
  };

  // Rows within `chunk`: sums stand at its first key.
  absl::Status Inside(const LinearPlan& plan, const Place& place,
                      LinearWalk& walk, LinearChunk& chunk,
                      const LinearSums& sums, TileGemm& gemm);
  // Rows behind all keys that the sums hold, which stand at key `reference`
  // (-1: at the start).
  absl::Status Behind(const LinearPlan& plan, const Place& place,
                      LinearWalk& walk, LinearDecays& decays, int64_t reference,
                      const LinearSums& sums, TileGemm& gemm);

  // Rows that see nothing: zeros.
  void Clear(const LinearPlan& plan, int64_t rows);

  // Adds the shares of held keys.
  void AddHeld(const LinearPlan& plan, const Place& place, LinearWalk& walk,
               HeldKeys& held);

  // [rows, plan.width()]: sums over values, then over ones.
  float* row(int64_t r) { return sums_.data() + r * width_; }

 private:
  absl::Status ReadSums(int64_t rows, const LinearSums& sums, TileGemm& gemm);
  // The keys of the chunk that each row sees: a triangle, so products of a few
  // rows each.
  void AddChunk(const Place& place, LinearWalk& walk, const LinearChunk& chunk);
  void Encode(const LinearPlan& plan, const Place& place, LinearWalk& walk,
              const LinearDecays& decays, int64_t reference, bool late);

  int64_t dim_ = 0, width_ = 0;
  AlignedBuffer raw_, advanced_, logits_, sums_;
  SplitLags lags_;  // [rows, sources]
  std::vector<int32_t> seen_;
  LateParts late_;
};

// The query as sent after the feature map; [D].
void LoadQuery(const LinearPlan& plan, const LinearTile::Place& place,
               const LinearWalk& walk, int64_t r, float* raw);

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_TILE_H_
