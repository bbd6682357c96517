// Decays too fast to be referred to the first key of their chunk.
//
// Keys are taken in blocks of 16. A query reads the blocks that it sees whole
// through a reference at their last key: keys decay to it and the query from
// it, so that no factor underflows unless the product does (rule N5). The block
// that it stands within is carried from query to query over the gaps between
// them, w_r = A(t_r - t_(r-1)) w_(r-1) with w_r[j] = A(t_r - s_j) k_j: two
// exponentials per part and gap instead of one per pair. At most 16 such steps
// follow each other before they start afresh, which bounds their roundings.
#ifndef ATTND_KERNELS_LINEAR_LATE_H_
#define ATTND_KERNELS_LINEAR_LATE_H_

#include <cstdint>
#include <vector>

#include "kernels/linear_decays.h"
#include "kernels/linear_walk.h"
#include "kernels/tensor.h"

namespace attnd {

// Keys of a block, and queries of a run that is carried.
inline constexpr int64_t kLateBlock = 16;

class LateParts {
 public:
  // Takes a tile's queries, rotated and not decayed: rows of `dim` (padded)
  // floats.
  void Take(const float* queries, int64_t rows, int64_t dim);

  // Those are queries from `query` on of the walk; seen[r] of the chunk's keys
  // are visible to row r, 1 to 64, never falling. `keys` is the rotated block
  // [dim, 64] of the chunk that starts at key `key`. Adds the parts' share to
  // logits [rows, 64]; what lies beyond `seen` holds anything afterwards.
  void Add(const LinearDecays& decays, const LinearWalk& walk, int64_t key,
           int64_t query, const int32_t* seen, const std::vector<int>& parts,
           const float* keys, float* logits);

 private:
  // Rows [first, last) of the tile that stand within block `block`, at most 16,
  // or behind all blocks.
  struct Run {
    int64_t block, first, last;
  };
  void Choose(const std::vector<int>& parts);
  // A(E - s) k for the keys before `block`, E the last of them.
  void MoveKeys(int64_t block);
  void AddBehind(const Run& run);
  void AddWithin(const Run& run);
  void CarrySmalls(const Run& run);

  const LinearDecays* decays_ = nullptr;
  const LinearWalk* walk_ = nullptr;
  int64_t key_ = 0, query_ = 0, rows_ = 0, dim_ = 0;
  int sources_ = 0;
  const int32_t* seen_ = nullptr;
  const float* keys_ = nullptr;
  float* logits_ = nullptr;

  // The parts: their chains, small blocks and jets (rows) in all.
  LinearDecays::Table chains_;
  std::vector<int> smalls_;
  int64_t jets_ = 0;

  // The queries as columns, 64 by 64: [rows / 64, dim, 64]; a run's first one.
  AlignedBuffer queries_;
  const float* column_ = nullptr;
  SplitLags key_lags_;         // [sources, 64] to the reference
  SplitLags row_lags_, gaps_;  // [sources, 16] of the run's rows
  SplitLags entry_lags_;       // [sources, 16] of the block's keys
  alignas(64) int32_t entry_row_[kLateBlock];  // of the run
  // Keys at the reference [jets, 64]; queries at it, and keys where they enter
  // [jets, 16].
  AlignedBuffer moved_, advanced_, entered_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_LATE_H_
