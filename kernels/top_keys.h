// The keys of largest weight of each row of a tile, kept while logits pass by.
#ifndef ATTND_KERNELS_TOP_KEYS_H_
#define ATTND_KERNELS_TOP_KEYS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace attnd {

// A heap per row: rows times count candidates, whatever the number of keys.
class TopKeys {
 public:
  struct Candidate {
    float logit = 0;
    int32_t row = 0;  // of the key, in its tensor
  };

  // Empties `rows` heaps of at most `count` candidates each.
  void Start(int64_t rows, int64_t count);

  // A logit of the heap's row. -inf is hidden; NaN counts as the largest.
  void Offer(int64_t row, float logit, int32_t key_row) {
    if (sizes_[row] < count_ || logit >= least_[row] || logit != logit) {
      Insert(row, {logit, key_row});
    }
  }

  // The row's candidates by descending logit, of equal ones the smaller key row
  // first. Ends the heap.
  absl::Span<const Candidate> Sorted(int64_t row);

  int64_t scratch_bytes() const;

 private:
  void Insert(int64_t row, Candidate candidate);

  int64_t count_ = 0;
  std::vector<Candidate> heaps_;  // [rows, count]
  std::vector<int64_t> sizes_;
  std::vector<float> least_;  // logit of a full heap's worst
};

}  // namespace attnd

#endif  // ATTND_KERNELS_TOP_KEYS_H_
