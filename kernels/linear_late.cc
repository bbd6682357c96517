#include "kernels/linear_late.h"

#include <algorithm>
#include <vector>

#include "kernels/block_pack.h"
#include "kernels/rotation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_late.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear_decay-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

using Table = LinearDecays::Table;

// Chains one after the other, jets of chain i behind those of chain i - 1 in
// dst [jets, dst_step]: A(lag) src, or its transpose, for `columns` columns of
// src [., 64] with lags [sources, lag_step].
void AdvanceChainsImpl(const Table& table, bool transposed,
                       const SplitLags& lags, int64_t lag_step, int64_t columns,
                       const float* src, float* dst, int64_t dst_step) {
  for (int i = 0; i < table.count(); ++i) {
    const int64_t lag = table.source[i] * lag_step;
    const float* hi = lags.hi.data() + lag;
    const float* lo = lags.lo.data() + lag;
    const float* from = src + table.first[i] * kLinearChunk;
    const int64_t step = table.step[i] * kLinearChunk;
    if (transposed) {
      AdvanceChain<true>(table, i, hi, lo, columns, from, step, dst, dst_step);
    } else {
      AdvanceChain<false>(table, i, hi, lo, columns, from, step, dst, dst_step);
    }
    dst += table.order[i] * dst_step;
  }
}

// logits[r, j] += sum_f q[f, r] k[f, j], q [jets, 16], k [jets, 64].
void AddDotsImpl(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k,
                 int64_t jets, int64_t rows, int64_t columns,
                 float* HWY_RESTRICT logits) {
  const DecayLane d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  const auto tile = [&](auto count, int64_t r, int64_t j) HWY_ATTR {
    constexpr int kRows = decltype(count)::value;
    DecayVector sum[kRows];
    for (int i = 0; i < kRows; ++i) {
      sum[i] = hn::LoadU(d, logits + (r + i) * kLinearChunk + j);
    }
    for (int64_t f = 0; f < jets; ++f) {
      const DecayVector x = hn::LoadU(d, k + f * kLinearChunk + j);
      for (int i = 0; i < kRows; ++i) {
        sum[i] = hn::MulAdd(hn::Set(d, q[f * kLateBlock + r + i]), x, sum[i]);
      }
    }
    for (int i = 0; i < kRows; ++i) {
      hn::StoreU(sum[i], d, logits + (r + i) * kLinearChunk + j);
    }
  };
  for (int64_t j = 0; j < columns; j += n) {
    int64_t r = 0;
    for (; r + 8 <= rows; r += 8) tile(std::integral_constant<int, 8>(), r, j);
    for (; r < rows; ++r) tile(std::integral_constant<int, 1>(), r, j);
  }
}

// Carries the keys of one chain over the rows of a run: its own share.
// `power` [order, 16] of the gaps.
template <int kOrder>
HWY_INLINE void CarryChain(const float* HWY_RESTRICT power,
                           const int32_t* entry_row,
                           const float* HWY_RESTRICT entered,
                           const float* HWY_RESTRICT q, int64_t q_step,
                           int64_t rows, float* HWY_RESTRICT logits) {
  const DecayLane d;
  const hn::RebindToSigned<DecayLane> di;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < kLateBlock; j += n) {
    const auto entry = hn::LoadU(di, entry_row + j);
    DecayVector x[kOrder], w[kOrder];
    for (int i = 0; i < kOrder; ++i) {
      x[i] = hn::LoadU(d, entered + i * kLateBlock + j);
      w[i] = hn::Zero(d);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const auto enters = hn::RebindMask(
          d, hn::Eq(entry, hn::Set(di, static_cast<int32_t>(r))));
      float* at = logits + r * kLinearChunk + j;
      DecayVector sum = hn::LoadU(d, at);
      // Ascending: w[i] still holds the row before where w[i - 1] reads it.
      for (int i = 0; i < kOrder; ++i) {
        DecayVector y = hn::Mul(hn::Set(d, power[r]), w[i]);
        for (int p = 1; i + p < kOrder; ++p) {
          y = hn::MulAdd(hn::Set(d, power[p * kLateBlock + r]), w[i + p], y);
        }
        w[i] = hn::IfThenElse(enters, x[i], y);
        sum = hn::MulAdd(hn::Set(d, q[i * q_step + r]), w[i], sum);
      }
      hn::StoreU(sum, d, at);
    }
  }
}

// All chains; q [., 64] in encoded order, entered [jets, 16].
void CarryImpl(const Table& table, const SplitLags& gaps,
               const int32_t* entry_row, const float* entered, const float* q,
               int64_t rows, float* logits) {
  const DecayLane d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float power[kMaxJets * kLateBlock];
  for (int i = 0; i < table.count(); ++i) {
    const int order = table.order[i];
    for (int64_t r = 0; r < kLateBlock; r += n) {
      const int64_t lag = table.source[i] * kLateBlock + r;
      const DecayVector hi = hn::LoadU(d, gaps.hi.data() + lag);
      const DecayVector e =
          Decay(d, hn::Set(d, table.rate_hi[i]), hn::Set(d, table.rate_lo[i]),
                hi, hn::LoadU(d, gaps.lo.data() + lag));
      DecayVector powers[kMaxJets];
      Powers(d, e, hn::Mul(hn::Set(d, table.coupling[i]), hi), order, powers);
      for (int p = 0; p < order; ++p) {
        hn::Store(powers[p], d, power + p * kLateBlock + r);
      }
    }
    const float* from = q + table.first[i] * kLinearChunk;
    const int64_t step = table.step[i] * kLinearChunk;
    const auto carry = order == 1   ? CarryChain<1>
                       : order == 2 ? CarryChain<2>
                       : order == 3 ? CarryChain<3>
                                    : CarryChain<4>;
    carry(power, entry_row, entered, from, step, rows, logits);
    entered += order * kLateBlock;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(AdvanceChainsImpl);
HWY_EXPORT(AddDotsImpl);
HWY_EXPORT(CarryImpl);

void LateParts::Choose(const std::vector<int>& parts) {
  chains_.Clear();
  smalls_.clear();
  jets_ = 0;
  for (int part : parts) {
    if (part < decays_->chains()) {
      chains_.Take(decays_->table(), part);
      jets_ += chains_.order.back();
    } else {
      smalls_.push_back(part - decays_->chains());
      jets_ += decays_->head()->smalls()[smalls_.back()].size;
    }
  }
}

void LateParts::Take(const float* queries, int64_t rows, int64_t dim) {
  rows_ = rows;
  dim_ = dim;
  // Vectors read beyond the last column.
  queries_.Reserve((rows + kLinearChunk - 1) / kLinearChunk * dim *
                       kLinearChunk +
                   kLateBlock);
  for (int64_t r = 0; r < rows; r += kLinearChunk) {
    PackBlock(queries + r * dim, std::min(kLinearChunk, rows - r), dim,
              queries_.data() + r * dim);
  }
}

void LateParts::Add(const LinearDecays& decays, const LinearWalk& walk,
                    int64_t key, int64_t query, const int32_t* seen,
                    const std::vector<int>& parts, const float* keys,
                    float* logits) {
  decays_ = &decays;
  walk_ = &walk;
  key_ = key;
  query_ = query;
  sources_ = walk.sources();
  seen_ = seen;
  keys_ = keys;
  logits_ = logits;
  Choose(parts);
  key_lags_.Resize(sources_ * kLinearChunk);
  for (SplitLags* lags : {&row_lags_, &gaps_, &entry_lags_}) {
    lags->Resize(sources_ * kLateBlock);
  }
  moved_.Reserve(jets_ * kLinearChunk);
  advanced_.Reserve(jets_ * kLateBlock);
  entered_.Reserve(jets_ * kLateBlock);
  int64_t moved_to = 0;
  Run run{0, 0, 0};
  for (; run.first < rows_; run.first = run.last) {
    run.block = seen[run.first] / kLateBlock;
    const int64_t pack = run.first / kLinearChunk * kLinearChunk;
    const int64_t most =
        std::min({rows_, run.first + kLateBlock, pack + kLinearChunk});
    run.last = run.first + 1;
    while (run.last < most && seen[run.last] / kLateBlock == run.block) {
      ++run.last;
    }
    column_ = queries_.data() + pack * dim_ + run.first - pack;
    if (run.block > 0) {
      if (moved_to != run.block) MoveKeys(run.block);
      moved_to = run.block;
      AddBehind(run);
    }
    if (seen[run.last - 1] > run.block * kLateBlock) AddWithin(run);
  }
}

void LateParts::MoveKeys(int64_t block) {
  const int64_t columns = block * kLateBlock;
  for (int s = 0; s < sources_; ++s) {
    for (int64_t j = 0; j < columns; ++j) {
      key_lags_.Set(s * kLinearChunk + j,
                    walk_->KeyLag(s, key_ + columns - 1, key_ + j));
    }
  }
  HWY_DYNAMIC_DISPATCH(AdvanceChainsImpl)
  (chains_, false, key_lags_, kLinearChunk, columns, keys_, moved_.data(),
   kLinearChunk);
  float* to = moved_.data() + jets_ * kLinearChunk;
  for (auto small = smalls_.rbegin(); small != smalls_.rend(); ++small) {
    const HeadEncoder::Small& its = decays_->head()->smalls()[*small];
    to -= its.size * kLinearChunk;
    for (int64_t j = 0; j < columns; ++j) {
      MultiplySmall(decays_->SmallExp(
                        *small, key_lags_.At(its.source * kLinearChunk + j)),
                    false, keys_ + its.first * kLinearChunk + j, kLinearChunk,
                    to + j, kLinearChunk);
    }
  }
}

void LateParts::AddBehind(const Run& run) {
  const int64_t rows = run.last - run.first;
  const int64_t columns = run.block * kLateBlock;
  for (int s = 0; s < sources_; ++s) {
    for (int64_t r = 0; r < kLateBlock; ++r) {
      // Lanes beyond the run repeat its last row.
      const int64_t row = std::min(run.first + r, run.last - 1);
      row_lags_.Set(s * kLateBlock + r,
                    walk_->QueryLag(s, query_ + row, key_ + columns - 1));
    }
  }
  HWY_DYNAMIC_DISPATCH(AdvanceChainsImpl)
  (chains_, true, row_lags_, kLateBlock, kLateBlock, column_, advanced_.data(),
   kLateBlock);
  float* to = advanced_.data() + jets_ * kLateBlock;
  for (auto small = smalls_.rbegin(); small != smalls_.rend(); ++small) {
    const HeadEncoder::Small& its = decays_->head()->smalls()[*small];
    to -= its.size * kLateBlock;
    for (int64_t r = 0; r < rows; ++r) {
      MultiplySmall(
          decays_->SmallExp(*small, row_lags_.At(its.source * kLateBlock + r)),
          true, column_ + its.first * kLinearChunk + r, kLinearChunk, to + r,
          kLateBlock);
    }
  }
  HWY_DYNAMIC_DISPATCH(AddDotsImpl)
  (advanced_.data(), moved_.data(), jets_, rows, columns,
   logits_ + run.first * kLinearChunk);
}

void LateParts::AddWithin(const Run& run) {
  const int64_t rows = run.last - run.first;
  const int64_t first_key = run.block * kLateBlock;
  int64_t row = run.first;
  for (int64_t j = 0; j < kLateBlock; ++j) {
    while (row < run.last && seen_[row] <= first_key + j) ++row;
    entry_row_[j] = static_cast<int32_t>(row - run.first);
    for (int s = 0; s < sources_; ++s) {
      entry_lags_.Set(s * kLateBlock + j,
                      row == run.last ? 0
                                      : walk_->QueryLag(s, query_ + row,
                                                        key_ + first_key + j));
    }
  }
  for (int s = 0; s < sources_; ++s) {
    for (int64_t r = 0; r < kLateBlock; ++r) {
      gaps_.Set(
          s * kLateBlock + r,
          r == 0 || r >= rows ? 0 : walk_->QueryGap(s, query_ + run.first + r));
    }
  }
  float* logits = logits_ + run.first * kLinearChunk + first_key;
  HWY_DYNAMIC_DISPATCH(AdvanceChainsImpl)
  (chains_, false, entry_lags_, kLateBlock, kLateBlock, keys_ + first_key,
   entered_.data(), kLateBlock);
  HWY_DYNAMIC_DISPATCH(CarryImpl)
  (chains_, gaps_, entry_row_, entered_.data(), column_, rows, logits);
  CarrySmalls(run);
}

void LateParts::CarrySmalls(const Run& run) {
  const int64_t first_key = run.block * kLateBlock;
  for (int small : smalls_) {
    const HeadEncoder::Small& its = decays_->head()->smalls()[small];
    const float* keys = keys_ + its.first * kLinearChunk + first_key;
    const float* queries = column_ + its.first * kLinearChunk;
    float* carried = entered_.data();  // of the chains, which are done
    for (int64_t r = 0; r < run.last - run.first; ++r) {
      float* logits = logits_ + (run.first + r) * kLinearChunk + first_key;
      const std::vector<double> step =
          decays_->SmallExp(small, gaps_.At(its.source * kLateBlock + r));
      for (int64_t j = 0; j < kLateBlock && entry_row_[j] <= r; ++j) {
        if (entry_row_[j] == r) {
          MultiplySmall(decays_->SmallExp(
                            small, entry_lags_.At(its.source * kLateBlock + j)),
                        false, keys + j, kLinearChunk, carried + j, kLateBlock);
        } else {
          MultiplySmall(step, false, carried + j, kLateBlock, carried + j,
                        kLateBlock);
        }
        for (int c = 0; c < its.size; ++c) {
          logits[j] +=
              queries[c * kLinearChunk + r] * carried[c * kLateBlock + j];
        }
      }
    }
  }
}

}  // namespace attnd
#endif  // HWY_ONCE
