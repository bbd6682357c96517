// Decays too fast to be referred to the first key of their chunk.
//
// Rule N5: the chunk is split in two at a wide gap; queries after the gap see
// the keys before it through a reference at the last of these (both lags >= 0),
// and each half goes on by itself with the parts that are still too fast for
// it. A part that its half can hold is referred to the half's first key.
#ifndef ATTND_KERNELS_LINEAR_LATE_H_
#define ATTND_KERNELS_LINEAR_LATE_H_

#include <cstdint>
#include <vector>

#include "kernels/linear_decays.h"
#include "kernels/linear_walk.h"

namespace attnd {

class LateParts {
 public:
  // Queries [query, query + rows) of the walk, rotated and not decayed, rows of
  // `stride` floats; seen[r] of the chunk's keys are visible to row r, 1 to 64,
  // never falling. `keys` is the rotated block [dim, 64] of the chunk that
  // starts at key `key`. Adds the parts' share to logits [rows, 64]; what lies
  // beyond `seen` holds any finite number afterwards.
  void Add(LinearDecays& decays, const LinearWalk& walk, int64_t key,
           int64_t query, int64_t rows, const int32_t* seen,
           const std::vector<int>& parts, const float* queries, int64_t stride,
           const float* keys, float* logits);

 private:
  struct Block {
    int64_t begin, end;           // keys of the chunk
    int64_t first_row, last_row;  // rows that see (begin, end] of them
  };
  void Walk(const Block& block, const std::vector<int>& parts);
  void Share(const Block& block, int64_t reference,
             const std::vector<int>& parts);
  double Span(const Block& block, int source) const;
  int64_t Split(const Block& block, const std::vector<int>& parts) const;
  int64_t FirstRow(const Block& block, int64_t at_least) const;

  LinearDecays* decays_ = nullptr;
  const LinearWalk* walk_ = nullptr;
  int64_t key_ = 0, query_ = 0, stride_ = 0;
  const int32_t* seen_ = nullptr;
  const float *queries_ = nullptr, *keys_ = nullptr;
  float* logits_ = nullptr;
  SplitLags row_lags_, key_lags_;
};

}  // namespace attnd

#endif  // ATTND_KERNELS_LINEAR_LATE_H_
