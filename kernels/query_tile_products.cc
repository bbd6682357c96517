// The products of a step: the library's, our own, or pair by pair.
#include <algorithm>

#include "kernels/query_tile.h"
#include "kernels/small_product.h"

namespace attnd {
namespace {

constexpr int64_t kHalf = kMaxTileRows / 2;

}  // namespace

// Whether our own products, which leave out what no row of a group sees, beat
// the library's. In cycles of one multiply-add of 16 lanes, as measured on
// AVX-512: see README.md.
bool QueryTile::Small(const Step& step) const {
  constexpr double kLibraryCall = 2000, kOwnCall = 60, kOwnSlowness = 1.2;
  int64_t pairs = 0;
  for (int64_t r = 0; r < step.rows; r += kProductRows) {
    const int64_t rows = std::min(kProductRows, step.rows - r);
    const Interval& columns = seen_[r / kProductRows];
    pairs += rows * (columns.end - columns.begin);
  }
  const double library = static_cast<double>(PaddedRows(step.rows)) *
                         static_cast<double>(step.keys * dim_) / 16;
  const double own = static_cast<double>(pairs * dim_) / 16;
  return kOwnSlowness * own + kOwnCall < library + kLibraryCall;
}

void QueryTile::SmallLogits(const Step& step, const float* queries,
                            const float* packed) {
  for (int64_t r = 0; r < step.rows; r += kProductRows) {
    const int64_t rows = std::min(kProductRows, step.rows - r);
    const Interval& columns = seen_[r / kProductRows];
    for (int64_t block = columns.begin / kKeyBlock * kKeyBlock;
         block < columns.end; block += kKeyBlock) {
      const int64_t begin = std::max(columns.begin, block);
      const int64_t end = std::min<int64_t>(columns.end, block + kKeyBlock);
      Multiply({.a = queries + r * dim_,
                .a_stride = dim_,
                .b = packed + block * dim_ + (begin - block),
                .b_stride = kKeyBlock,
                .c = logits_.data() + r * step.keys + begin,
                .c_stride = step.keys,
                .rows = rows,
                .depth = dim_,
                .columns = end - begin,
                .exact = exact_});
    }
  }
}

void QueryTile::SmallValues(const Step& step, const float* values,
                            bool accumulate) {
  for (int64_t r = 0; r < step.rows; r += kProductRows) {
    const int64_t rows = std::min(kProductRows, step.rows - r);
    Interval keys = seen_[r / kProductRows];
    keys.end = std::min(keys.end, item_->key_rows - step.key);
    Multiply({.a = logits_.data() + r * step.keys + keys.begin,
              .a_stride = step.keys,
              .b = values + keys.begin * value_dim_,
              .b_stride = value_dim_,
              .c = values_.data() + (step.first + r) * value_dim_,
              .c_stride = value_dim_,
              .rows = rows,
              .depth = std::max<int64_t>(0, keys.end - keys.begin),
              .columns = value_dim_,
              .accumulate = accumulate});
  }
}

absl::Status QueryTile::FillLogits(TileGemm& gemm, KeyPack& pack,
                                   const Step& step) {
  const HeadEncoder* head = pack.head();
  const bool pairwise = head != nullptr && head->pairwise();
  const float* queries = nullptr;
  bool at_last = false;
  if (head == nullptr || !head->one_sided()) {
    queries = queries_.data() + step.first * dim_;
  } else if (!pairwise &&
             decayed_.After(step.first, pack.Reference(step.key))) {
    queries = decayed_.MovedTo(step.first, step.rows, pack.Reference(step.key));
  } else if (!pairwise && step.keys <= kMovedKeys &&
             decayed_.After(step.first, pack.LastKey(step.key, step.keys))) {
    queries = decayed_.MovedTo(step.first, step.rows,
                               pack.LastKey(step.key, step.keys));
    at_last = true;
  }
  const float* in_place = pack.KeysInPlace(step.key);
  if (few_ && in_place != nullptr) {
    MultiplyTransposed(
        {.a = queries,
         .a_stride = dim_,
         .b = in_place,
         .b_stride = dim_,
         .c = logits_.data(),
         .c_stride = step.keys,
         .rows = step.rows,
         .depth = dim_,
         .columns = std::min(step.keys, item_->key_rows - step.key)});
    return absl::OkStatus();
  }
  if (queries != nullptr && !pairwise) {
    if (half_ && !exact_) {
      return HalfLogits(gemm, pack, step, queries, at_last);
    }
    if (!at_last) pack.EnsureKeys(step.key, step.key + step.keys);
    const float* packed =
        at_last ? pack.KeysAtLast(step.key, step.keys) : pack.Keys(step.key);
    if (small_ || (exact_ && !half_)) {
      SmallLogits(step, queries, packed);
      return absl::OkStatus();
    }
    return gemm.QueryKey(PaddedRows(step.rows), static_cast<int>(step.keys),
                         dim_, queries, packed, logits_.data());
  }
  pairs_.Fill(*plan_, *plan_->encoder(place_.item), pack,
              {.first = place_.first + step.first,
               .offset = step.first,
               .count = step.rows,
               .queries = queries_.data() + step.first * dim_,
               .stride = dim_,
               .exact = exact_,
               .decayed = pairwise ? nullptr : &decayed_,
               .begin = begin_,
               .end = end_},
              step.key, step.keys, logits_.data());
  // Rows of padding take part in the next product: keep them finite.
  std::fill(logits_.data() + step.rows * step.keys,
            logits_.data() + PaddedRows(step.rows) * step.keys, 0.0f);
  return absl::OkStatus();
}

absl::Status QueryTile::AddValues(TileGemm& gemm, KeyPack& pack,
                                  const Step& step, bool rescale) {
  if (value_dim_ == 0) return absl::OkStatus();
  const bool accumulate = started_[step.first / kHalf];
  if (half_) {
    return AddHalfValues(gemm, pack, step, rescale && accumulate, accumulate);
  }
  float* values = values_.data() + step.first * value_dim_;
  if (rescale && accumulate) {
    ScaleRows(values, static_cast<int>(step.rows), value_dim_, rescale_);
  }
  if (small_) {
    const int64_t last = std::min(step.key + step.keys, item_->key_rows);
    SmallValues(step, pack.Values(step.key, last), accumulate);
    return absl::OkStatus();
  }
  // Rows beyond `rows` hold products of zero queries: finite, and never read.
  return gemm.WeightValue(PaddedRows(step.rows), static_cast<int>(step.keys),
                          value_dim_, logits_.data(),
                          pack.Values(step.key, step.key + step.keys),
                          accumulate, values);
}

}  // namespace attnd
