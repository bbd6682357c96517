#include "kernels/top_keys.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attnd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool Better(const TopKeys::Candidate& a, const TopKeys::Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.row < b.row);
}

}  // namespace

void TopKeys::Start(int64_t rows, int64_t count) {
  count_ = count;
  heaps_.resize(rows * count);
  sizes_.assign(rows, 0);
  least_.assign(rows, -kInfinity);
}

void TopKeys::Insert(int64_t row, Candidate candidate) {
  if (candidate.logit == -kInfinity || count_ == 0) return;
  // The row's weights are NaN whatever is chosen.
  if (std::isnan(candidate.logit)) candidate.logit = kInfinity;
  Candidate* heap = heaps_.data() + row * count_;
  int64_t& size = sizes_[row];
  if (size == count_) {
    if (!Better(candidate, heap[0])) return;
    std::pop_heap(heap, heap + size, Better);
    heap[size - 1] = candidate;
  } else {
    heap[size++] = candidate;
  }
  std::push_heap(heap, heap + size, Better);
  if (size == count_) least_[row] = heap[0].logit;
}

absl::Span<const TopKeys::Candidate> TopKeys::Sorted(int64_t row) {
  Candidate* heap = heaps_.data() + row * count_;
  std::sort_heap(heap, heap + sizes_[row], Better);
  return {heap, static_cast<size_t>(sizes_[row])};
}

int64_t TopKeys::scratch_bytes() const {
  return static_cast<int64_t>(heaps_.capacity() * sizeof(Candidate) +
                              sizes_.capacity() * sizeof(int64_t) +
                              least_.capacity() * sizeof(float));
}

}  // namespace attnd
