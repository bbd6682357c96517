#include "kernels/decayed_queries.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "kernels/chains.h"

namespace attnd {

void DecayedQueries::Start(KeyPack& pack, int64_t first, int64_t count,
                           const float* queries) {
  head_ = pack.head();
  pack_ = &pack;
  first_ = first;
  count_ = count;
  queries_ = queries;
  std::fill(std::begin(group_done_), std::end(group_done_), false);
  groups_.Reserve(kMaxTileRows * pack.dim());
  factors_.Reserve(FactorCount(*head_));
  lags_.Reserve(pack.axes().sources() * kRowGroup + kKeyGroup);
}

bool DecayedQueries::After(int64_t row, int64_t key) const {
  if (!head_->decays_sorted()) return false;
  const std::vector<int>& sources = head_->decay_sources();
  return std::all_of(sources.begin(), sources.end(), [&](int source) {
    return pack_->axes().QueryMinusKey(source, first_ + row, key) >= 0;
  });
}

const float* DecayedQueries::Group(int64_t row) {
  const int64_t dim = pack_->dim();
  float* group = groups_.data() + row * dim;
  bool& done = group_done_[row / kRowGroup];
  if (done) return group;
  done = true;
  const int64_t rows = std::min(kRowGroup, count_ - row);
  for (int s = 0; s < pack_->axes().sources(); ++s) {
    for (int64_t r = 0; r < rows; ++r) {
      lags_.Set(s * rows + r, pack_->axes().QueryMinusQuery(s, first_ + row + r,
                                                            first_ + row));
    }
  }
  AdvanceQueriesByRow(*head_, lags_, false, queries_ + row * dim,
                      static_cast<int>(rows), dim, group);
  return group;
}

const float* DecayedQueries::MovedTo(int64_t row, int64_t count,
                                     int64_t reference) {
  const int64_t dim = pack_->dim();
  float* moved = moved_.Reserve(kMaxTileRows * dim);
  for (int64_t r = row; r < row + count; r += kRowGroup) {
    const float* group = Group(r);
    for (int s = 0; s < pack_->axes().sources(); ++s) {
      lags_.Set(s, pack_->axes().QueryMinusKey(s, first_ + r, reference));
    }
    MakeFactors(*head_, lags_, false, factors_.data());
    AdvanceQueries(*head_, factors_.data(), group,
                   static_cast<int>(std::min(kRowGroup, row + count - r)), dim,
                   moved + (r - row) * dim);
  }
  std::fill(moved + count * dim, moved + PaddedRows(count) * dim, 0.0f);
  return moved;
}

int64_t DecayedQueries::scratch_bytes() const {
  return static_cast<int64_t>(sizeof(float)) *
             (groups_.capacity() + moved_.capacity() + factors_.capacity()) +
         lags_.scratch_bytes();
}

}  // namespace attnd
