// Queries of a tile under a one-sided encoding, moved to the reference times of
// the keys they meet (rule N4, chains.h).
#ifndef ATTND_KERNELS_DECAYED_QUERIES_H_
#define ATTND_KERNELS_DECAYED_QUERIES_H_

#include <cstdint>

#include "kernels/encoder.h"
#include "kernels/gemm.h"
#include "kernels/key_pack.h"
#include "kernels/source_lags.h"
#include "kernels/tensor.h"

namespace attnd {

// Queries that share a reference time before they are moved anywhere.
inline constexpr int64_t kRowGroup = 16;

// Belongs to a query tile. Borrows the pack and the queries.
class DecayedQueries {
 public:
  // Queries [first, first + count) of the item's order under the pack's head:
  // `queries` [count, pack.dim()] rotated and scaled, count <= kMaxTileRows.
  void Start(KeyPack& pack, int64_t first, int64_t count, const float* queries);

  // A(t - r)^T q for rows [row, row + 16) or fewer at the end, r the time of
  // `row`, a multiple of 16. [16, dim], valid until Start.
  const float* Group(int64_t row);

  // Whether all rows from `row` on (0 or kMaxTileRows / 2) stand at or after
  // the key-th key along everything that drives a decay.
  bool After(int64_t row, int64_t key) const;

  // A(t - E)^T q for rows [row, row + count), E the time of key `reference`;
  // After(row, reference) holds. [PaddedRows(count), dim], zeros at the end;
  // valid until the next call.
  const float* MovedTo(int64_t row, int64_t count, int64_t reference);

  int64_t scratch_bytes() const;

 private:
  const HeadEncoder* head_ = nullptr;
  KeyPack* pack_ = nullptr;
  int64_t first_ = 0, count_ = 0;
  const float* queries_ = nullptr;
  AlignedBuffer groups_;
  bool group_done_[kMaxTileRows / kRowGroup] = {};
  AlignedBuffer moved_, factors_;
  SourceLags lags_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_DECAYED_QUERIES_H_
