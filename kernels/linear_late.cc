#include "kernels/linear_late.h"

#include <algorithm>

namespace attnd {

void LateParts::Add(LinearDecays& decays, const LinearWalk& walk, int64_t key,
                    int64_t query, int64_t rows, const int32_t* seen,
                    const std::vector<int>& parts, const float* queries,
                    int64_t stride, const float* keys, float* logits) {
  decays_ = &decays;
  walk_ = &walk;
  key_ = key;
  query_ = query;
  stride_ = stride;
  seen_ = seen;
  queries_ = queries;
  keys_ = keys;
  logits_ = logits;
  const auto sources = static_cast<size_t>(walk.sources());
  row_lags_.Resize(sources * rows);
  key_lags_.Resize(sources * kLinearChunk);
  Walk({.begin = 0,
        .end = std::min<int64_t>(kLinearChunk, walk.keys() - key),
        .first_row = 0,
        .last_row = rows},
       parts);
}

// First row of the block that sees at least so many keys.
int64_t LateParts::FirstRow(const Block& block, int64_t at_least) const {
  return std::lower_bound(seen_ + block.first_row, seen_ + block.last_row,
                          at_least) -
         seen_;
}

double LateParts::Span(const Block& block, int source) const {
  const int64_t first = key_ + block.begin;
  return std::max(walk_->KeyLag(source, key_ + block.end - 1, first),
                  walk_->QueryLag(source, query_ + block.last_row - 1, first));
}

// The widest gap of the middle half, so that halves shrink by a quarter.
int64_t LateParts::Split(const Block& block,
                         const std::vector<int>& parts) const {
  const int64_t margin = (block.end - block.begin) / 4;
  const int source = decays_->SourceOf(parts[0]);
  int64_t best = 0;
  double widest = -1;
  for (int64_t m = std::max(block.begin + 1, block.begin + margin);
       m < block.end - margin; ++m) {
    const double gap = walk_->KeyLag(source, key_ + m, key_ + m - 1);
    if (gap <= widest) continue;
    widest = gap;
    best = m;
  }
  return best;
}

void LateParts::Walk(const Block& block, const std::vector<int>& parts) {
  if (parts.empty() || block.first_row >= block.last_row) return;
  // Rows that see the whole block.
  Block inside = block;
  inside.last_row = FirstRow(block, block.end);
  Share({block.begin, block.end, inside.last_row, block.last_row},
        block.end - 1, parts);
  if (inside.first_row >= inside.last_row) return;
  std::vector<int> slow, fast;
  for (int part : parts) {
    const double span = Span(inside, decays_->SourceOf(part));
    (decays_->MayGrow(part, span) ? slow : fast).push_back(part);
  }
  Share(inside, block.begin, slow);
  if (fast.empty()) return;
  const int64_t middle = Split(inside, fast);
  const int64_t after = FirstRow(inside, middle);
  Share({inside.begin, middle, after, inside.last_row}, middle - 1, fast);
  Walk({inside.begin, middle, inside.first_row, after}, fast);
  Walk({middle, inside.end, FirstRow(inside, middle + 1), inside.last_row},
       fast);
}

void LateParts::Share(const Block& block, int64_t reference,
                      const std::vector<int>& parts) {
  if (parts.empty() || block.first_row >= block.last_row) return;
  const int sources = walk_->sources();
  const int64_t rows = block.last_row - block.first_row;
  for (int s = 0; s < sources; ++s) {
    for (int64_t r = 0; r < rows; ++r) {
      row_lags_.Set(
          r * sources + s,
          walk_->QueryLag(s, query_ + block.first_row + r, key_ + reference));
    }
    for (int64_t j = block.begin; j < block.end; ++j) {
      key_lags_.Set(s * kLinearChunk + j,
                    walk_->KeyLag(s, key_ + reference, key_ + j));
    }
  }
  decays_->AddShares(parts, row_lags_, key_lags_,
                     queries_ + block.first_row * stride_, rows, stride_, keys_,
                     block.begin, block.end, sources,
                     logits_ + block.first_row * kLinearChunk);
}

}  // namespace attnd
