#include "kernels/pair_tiles.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/gemm.h"
#include "kernels/small_product.h"

namespace attnd {
namespace {

// Exponents up to 11, of a query and of a key forth and back, are rounded by
// 1e-6 together: a weight by a quarter of it at most.
constexpr float kMaxGrowth = 11;
// Powers of (t - r) and (r - s) are expanded: beyond it they would cancel.
constexpr float kMaxPolynomial = 1;

}  // namespace

// 16 rows (or fewer) by one group of keys.
struct PairTiles::Piece {
  int64_t row = 0;  // of rows_
  int64_t rows = 0;
  int64_t first_key = 0;       // of the item's order
  int64_t last_key = 0;        // last existing key of the group
  int64_t group = 0;           // within this Fill
  const float* raw = nullptr;  // [positions, 64] from the group's column on
};

void PairTiles::Fill(const Plan& plan, const Encoder& encoder, KeyPack& pack,
                     const Rows& rows, int64_t key, int64_t keys,
                     float* logits) {
  plan_ = &plan;
  encoder_ = &encoder;
  pack_ = &pack;
  head_ = pack.head();
  rows_ = rows;
  const int64_t groups = keys / kKeyGroup;
  queries_.Reserve(kRowGroup * pack.dim());
  if (encoder.absolute_lag()) groups_.Reserve(keys * pack.dim());
  moved_.Reserve(pack.dim() * kKeyGroup);
  factors_.Reserve(FactorCount(*head_) + kKeyGroup);
  lags_.Reserve(std::max(1, pack.axes().sources()) * kKeyGroup);
  future_group_done_.assign(groups, false);

  for (int64_t row = 0; row < rows.count; row += kRowGroup) {
    future_done_ = false;
    const int64_t count = std::min(kRowGroup, rows.count - row);
    for (int64_t group = 0; group < groups; ++group) {
      const int64_t column = group * kKeyGroup;
      bool seen = false;
      for (int64_t r = row; r < row + count; ++r) {
        seen = seen || (rows.begin[r] < column + kKeyGroup &&
                        rows.end[r] > column && rows.begin[r] < rows.end[r]);
      }
      if (!seen) continue;
      const int64_t block = (key + column) / kKeyBlock * kKeyBlock;
      const Piece piece{.row = row,
                        .rows = count,
                        .first_key = key + column,
                        .last_key = std::min(key + column + kKeyGroup - 1,
                                             pack.key_rows() - 1),
                        .group = group,
                        .raw = pack.RawBlock(block) + (key + column - block)};
      FillPiece(piece, logits + row * keys + column, keys);
    }
  }
}

void PairTiles::FillPiece(const Piece& piece, float* logits, int64_t stride) {
  if (head_->pairwise()) {
    Averaged(piece, logits, stride);
    return;
  }
  for (Side side : {kPast, kFuture}) {
    if (side == kFuture && !encoder_->absolute_lag()) continue;
    if (!Separated(piece, side)) continue;
    int64_t width = 0;
    const float* group = AdvancedGroup(piece, side, &width);
    const int64_t row = rows_.first + piece.row;
    for (int s = 0; s < pack_->axes().sources(); ++s) {
      const double lag =
          side == kPast ? pack_->axes().QueryMinusKey(s, row, piece.last_key)
                        : -pack_->axes().QueryMinusKey(s, row + piece.rows - 1,
                                                       piece.first_key);
      lags_.Set(s, lag);
    }
    MoveGroup(group, width, side);
    MultiplyPiece(piece, AdvancedQueries(piece, side), logits, stride);
    return;
  }
  // Where scores and lse are told, what growth and many steps round would show.
  if (rows_.exact || !Overlapping(piece, logits, stride)) {
    PairByPair(piece, logits, stride);
  }
}

// The group by the lags in lags_, one per source, into moved_.
void PairTiles::MoveGroup(const float* group, int64_t width, Side side) {
  MakeFactors(*head_, lags_, side == kFuture, factors_.data());
  AdvanceKeys(*head_, factors_.data(), group, width, pack_->dim(), kKeyGroup,
              moved_.data(), kKeyGroup);
}

// Queries against the group in moved_.
void PairTiles::MultiplyPiece(const Piece& piece, const float* queries,
                              float* logits, int64_t stride) {
  Multiply({.a = queries,
            .a_stride = pack_->dim(),
            .b = moved_.data(),
            .b_stride = kKeyGroup,
            .c = logits,
            .c_stride = stride,
            .rows = piece.rows,
            .depth = pack_->dim(),
            .columns = kKeyGroup,
            .exact = rows_.exact});
}

bool PairTiles::Separated(const Piece& piece, Side side) const {
  if (!head_->decays_sorted()) return false;
  const int64_t row = rows_.first + piece.row;
  for (int s : head_->decay_sources()) {
    const double lag = side == kPast
                           ? pack_->axes().QueryMinusKey(s, row, piece.last_key)
                           : -pack_->axes().QueryMinusKey(
                                 s, row + piece.rows - 1, piece.first_key);
    if (!(lag >= 0)) return false;
  }
  return true;
}

// A(t - r)^T q for the rows of a piece, r the first (past) or last (future)
// row.
const float* PairTiles::AdvancedQueries(const Piece& piece, Side side) {
  if (side == kPast) return rows_.decayed->Group(rows_.offset + piece.row);
  float* out = queries_.data();
  if (future_done_) return out;
  future_done_ = true;
  const int64_t row = rows_.first + piece.row;
  for (int s = 0; s < pack_->axes().sources(); ++s) {
    for (int64_t r = 0; r < piece.rows; ++r) {
      lags_.Set(s * piece.rows + r, pack_->axes().QueryMinusQuery(
                                        s, row + piece.rows - 1, row + r));
    }
  }
  AdvanceQueriesByRow(*head_, lags_, true,
                      rows_.queries + piece.row * rows_.stride,
                      static_cast<int>(piece.rows), pack_->dim(), out);
  return out;
}

// A(E - s) k for a group of keys, E its last (past) or first (future) key, and
// the floats from one channel to the next.
const float* PairTiles::AdvancedGroup(const Piece& piece, Side side,
                                      int64_t* width) {
  if (side == kPast) {
    *width = kKeyBlock;
    const int64_t block = piece.first_key / kKeyBlock * kKeyBlock;
    return pack_->GroupedBlock(block) + (piece.first_key - block);
  }
  *width = kKeyGroup;
  float* out = groups_.data() + piece.group * pack_->dim() * kKeyGroup;
  if (future_group_done_[piece.group]) return out;
  future_group_done_[piece.group] = true;
  for (int s = 0; s < pack_->axes().sources(); ++s) {
    for (int64_t j = 0; j < kKeyGroup; ++j) {
      const int64_t key = std::min(piece.first_key + j, piece.last_key);
      lags_.Set(s * kKeyGroup + j,
                pack_->axes().KeyMinusKey(s, key, piece.first_key));
    }
  }
  AdvanceKeysByColumn(*head_, lags_, true, piece.raw, kKeyBlock, pack_->dim(),
                      kKeyGroup, out, kKeyGroup);
  return out;
}

// A piece on the diagonal of a one-sided encoding, with the first row as the
// reference: keys after it grow back to it. That is safe for chains whose
// growth stays below e^kMaxGrowth, where also the rounding of the exponents
// stays within the accuracy contract of weights; the few faster ones are added
// pair by pair.
bool PairTiles::Overlapping(const Piece& piece, float* logits, int64_t stride) {
  if (!head_->decays_sorted() || encoder_->absolute_lag() ||
      !head_->smalls().empty()) {
    return false;
  }
  const int64_t row = rows_.first + piece.row;
  const int sources = pack_->axes().sources();
  fast_.clear();
  reach_.resize(sources);
  for (int s = 0; s < sources; ++s) {
    reach_[s] = static_cast<float>(
        -pack_->axes().QueryMinusKey(s, row, piece.last_key));
  }
  const auto chains = static_cast<int>(head_->rates().size());
  const float* rates = head_->rates().data();
  const float* couplings = head_->couplings().data();
  const int* source = head_->chain_sources().data();
  for (int chain = 0; chain < chains; ++chain) {
    const float reach = reach_[source[chain]];
    if (rates[chain] * reach > kMaxGrowth ||
        std::fabs(couplings[chain]) * reach > kMaxPolynomial) {
      fast_.push_back(chain);
    }
  }
  MoveToRow(piece, row);
  float* moved = moved_.data();
  for (int chain : fast_) {
    const HeadEncoder::ChainGroup& group = head_->group_of(chain);
    for (int r = 0; r < group.order; ++r) {
      const int64_t p =
          group.first + r * group.count + chain - group.factor_offset;
      std::fill_n(moved + p * kKeyGroup, kKeyGroup, 0.0f);
    }
  }
  MultiplyPiece(piece, AdvancedQueries(piece, kPast), logits, stride);
  if (!fast_.empty()) AddFast(piece, logits, stride);
  return true;
}

// A(r - s) k for the keys of a piece, r the time of query `row`, which some lie
// after. Of chains in fast_ it may be anything; they are cleared afterwards.
void PairTiles::MoveToRow(const Piece& piece, int64_t row) {
  const int sources = pack_->axes().sources();
  if (!head_->coupled()) {
    // Back from the group's last key: one lag for all.
    for (int s = 0; s < sources; ++s) lags_.Set(s, -reach_[s]);
    int64_t width = 0;
    const float* group = AdvancedGroup(piece, kPast, &width);
    return MoveGroup(group, width, kPast);
  }
  for (int s = 0; s < sources; ++s) {
    for (int64_t j = 0; j < kKeyGroup; ++j) {
      const int64_t key = std::min(piece.first_key + j, piece.last_key);
      lags_.Set(s * kKeyGroup + j, pack_->axes().QueryMinusKey(s, row, key));
    }
  }
  AdvanceKeysByColumn(*head_, lags_, false, piece.raw, kKeyBlock, pack_->dim(),
                      kKeyGroup, moved_.data(), kKeyGroup);
}

// The share of the chains in fast_: gap by gap where a chain is a factor, pair
// by pair where it is a polynomial.
void PairTiles::AddFast(const Piece& piece, float* logits, int64_t stride) {
  const float* queries = rows_.queries + piece.row * rows_.stride;
  const auto polynomials = std::stable_partition(
      fast_.begin(), fast_.end(),
      [&](int chain) { return head_->group_of(chain).order == 1; });
  for (int source : head_->decay_sources()) {
    fast_decays_.clear();
    std::copy_if(
        fast_.begin(), polynomials, std::back_inserter(fast_decays_),
        [&](int chain) { return head_->chain_sources()[chain] == source; });
    if (fast_decays_.empty()) continue;
    Interleaving times;
    Interleave(piece, source, &times);
    AddDecayLogits(*head_, fast_decays_, times, queries,
                   static_cast<int>(piece.rows), rows_.stride, piece.raw,
                   kKeyBlock, logits, stride);
  }
  fast_.erase(fast_.begin(), polynomials);
  for (int64_t r = 0; !fast_.empty() && r < piece.rows; ++r) {
    PairLags(piece, r);
    AddChainLogits(*head_, fast_, queries + r * rows_.stride, piece.raw,
                   kKeyBlock, lags_.rounded(), logits + r * stride);
  }
}

void PairTiles::Interleave(const Piece& piece, int source,
                           Interleaving* times) const {
  const DriveAxes& axes = pack_->axes();
  const int64_t row = rows_.first + piece.row;
  std::fill_n(times->gap, kKeyGroup, 0.0f);
  for (int64_t r = 1; r < piece.rows; ++r) {
    times->gap[r] =
        static_cast<float>(axes.QueryMinusQuery(source, row + r, row + r - 1));
  }
  int64_t entry = 0;
  for (int64_t j = 0; j < kKeyGroup; ++j) {
    const int64_t key = std::min(piece.first_key + j, piece.last_key);
    while (entry < piece.rows &&
           !(axes.QueryMinusKey(source, row + entry, key) >= 0)) {
      ++entry;
    }
    const bool enters = entry < piece.rows;
    times->entry_row[j] = enters ? static_cast<int32_t>(entry) : -1;
    times->entry_lag[j] =
        enters
            ? static_cast<float>(axes.QueryMinusKey(source, row + entry, key))
            : 0.0f;
  }
}

// Lags of one row to the keys of a piece; negative ones are hidden unless the
// two-sided rule holds.
void PairTiles::PairLags(const Piece& piece, int64_t row) {
  const int64_t i = rows_.first + piece.row + row;
  for (int s = 0; s < pack_->axes().sources(); ++s) {
    for (int64_t j = 0; j < kKeyGroup; ++j) {
      const int64_t key = std::min(piece.first_key + j, piece.last_key);
      const double lag = pack_->axes().QueryMinusKey(s, i, key);
      lags_.Set(s * kKeyGroup + j,
                encoder_->absolute_lag() ? lag : std::max(lag, 0.0));
    }
  }
}

void PairTiles::PairByPair(const Piece& piece, float* logits, int64_t stride) {
  for (int64_t r = 0; r < piece.rows; ++r) {
    PairLags(piece, r);
    PairLogits(*head_, rows_.queries + (piece.row + r) * rows_.stride,
               piece.raw, kKeyBlock, pack_->dim(), lags_, logits + r * stride);
  }
}

void PairTiles::Averaged(const Piece& piece, float* logits, int64_t stride) {
  std::vector<double> lag(static_cast<size_t>(pack_->axes().sources()) *
                          kKeyGroup);
  for (int64_t r = 0; r < piece.rows; ++r) {
    const int64_t i = rows_.first + piece.row + r;
    for (int s = 0; s < pack_->axes().sources(); ++s) {
      for (int64_t j = 0; j < kKeyGroup; ++j) {
        const int64_t key = std::min(piece.first_key + j, piece.last_key);
        lag[s * kKeyGroup + j] = pack_->axes().QueryMinusKey(s, i, key);
      }
    }
    AveragedLogits(*encoder_, *head_,
                   rows_.queries + (piece.row + r) * rows_.stride, piece.raw,
                   kKeyBlock, lag.data(), logits + r * stride);
  }
}

int64_t PairTiles::scratch_bytes() const {
  return static_cast<int64_t>(sizeof(float)) *
             (queries_.capacity() + groups_.capacity() + moved_.capacity() +
              factors_.capacity()) +
         lags_.scratch_bytes();
}

}  // namespace attnd
