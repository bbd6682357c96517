#include "kernels/decayed_queries.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "kernels/chains.h"

namespace attnd {

std::vector<int> DecaySources(const Encoder& encoder, const HeadEncoder& head,
                              bool* sorted) {
  std::set<int> sources;
  for (size_t i = 0; i < head.rates().size(); ++i) {
    if (head.rates()[i] != 0 || head.couplings()[i] != 0) {
      sources.insert(head.chain_sources()[i]);
    }
  }
  for (const HeadEncoder::Small& small : head.smalls()) {
    sources.insert(small.source);
  }
  *sorted = true;
  for (int s : sources) {
    const Drive& drive = encoder.sources()[s];
    if (!drive.clock && drive.coordinate > 0) *sorted = false;
  }
  return {sources.begin(), sources.end()};
}

void DecayedQueries::Start(const Encoder& encoder, KeyPack& pack, int64_t first,
                           int64_t count, const float* queries) {
  head_ = pack.head();
  pack_ = &pack;
  first_ = first;
  count_ = count;
  queries_ = queries;
  sources_ = DecaySources(encoder, *head_, &sorted_);
  std::fill(std::begin(group_done_), std::end(group_done_), false);
  groups_.Reserve(kMaxTileRows * pack.dim());
  factors_.Reserve(FactorCount(*head_) + pack.axes().sources() + kKeyGroup);
}

bool DecayedQueries::After(int64_t row, int64_t key) const {
  if (!sorted_) return false;
  return std::all_of(sources_.begin(), sources_.end(), [&](int source) {
    return pack_->axes().QueryMinusKey(source, first_ + row, key) >= 0;
  });
}

const float* DecayedQueries::Group(int64_t row) {
  const int64_t dim = pack_->dim();
  float* group = groups_.data() + row * dim;
  bool& done = group_done_[row / kRowGroup];
  if (done) return group;
  done = true;
  float* tau = factors_.data() + FactorCount(*head_);
  for (int64_t r = row; r < std::min(row + kRowGroup, count_); ++r) {
    for (int s = 0; s < pack_->axes().sources(); ++s) {
      tau[s] = static_cast<float>(
          pack_->axes().QueryMinusQuery(s, first_ + r, first_ + row));
    }
    MakeFactors(*head_, tau, false, factors_.data());
    AdvanceQueries(*head_, factors_.data(), queries_ + r * dim, 1, dim,
                   group + (r - row) * dim);
  }
  return group;
}

const float* DecayedQueries::MovedTo(int64_t row, int64_t count,
                                     int64_t reference) {
  const int64_t dim = pack_->dim();
  float* moved = moved_.Reserve(kMaxTileRows * dim);
  for (int64_t r = row; r < row + count; r += kRowGroup) {
    const float* group = Group(r);
    float* tau = factors_.data() + FactorCount(*head_);
    for (int s = 0; s < pack_->axes().sources(); ++s) {
      tau[s] = static_cast<float>(
          pack_->axes().QueryMinusKey(s, first_ + r, reference));
    }
    MakeFactors(*head_, tau, false, factors_.data());
    AdvanceQueries(*head_, factors_.data(), group,
                   static_cast<int>(std::min(kRowGroup, row + count - r)), dim,
                   moved + (r - row) * dim);
  }
  std::fill(moved + count * dim, moved + PaddedRows(count) * dim, 0.0f);
  return moved;
}

int64_t DecayedQueries::scratch_bytes() const {
  return static_cast<int64_t>(sizeof(float)) *
         (groups_.capacity() + moved_.capacity() + factors_.capacity());
}

}  // namespace attnd
