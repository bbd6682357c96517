#include "kernels/linear_decays.h"

#include <algorithm>
#include <cmath>

#include "kernels/matrix_exp.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_decays.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear_decay-inl.h"
#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

using Table = LinearDecays::Table;

// e and z of the chains [begin, begin + live) of a table at one lag per source.
HWY_INLINE void Factors(DecayLane d, const Table& table, int begin,
                        int64_t live, bool common, const float* hi,
                        const float* lo, DecayVector& e, DecayVector& z) {
  DecayVector lag_hi, lag_lo;
  if (common) {
    lag_hi = hn::Set(d, hi[table.source[begin]]);
    lag_lo = hn::Set(d, lo[table.source[begin]]);
  } else {
    HWY_ALIGN float some_hi[16] = {}, some_lo[16] = {};
    for (int64_t l = 0; l < live; ++l) {
      some_hi[l] = hi[table.source[begin + l]];
      some_lo[l] = lo[table.source[begin + l]];
    }
    lag_hi = hn::Load(d, some_hi);
    lag_lo = hn::Load(d, some_lo);
  }
  e = Decay(d, LoadFirst(d, table.rate_hi.data() + begin, live),
            LoadFirst(d, table.rate_lo.data() + begin, live), lag_hi, lag_lo);
  z = hn::Mul(LoadFirst(d, table.coupling.data() + begin, live), lag_hi);
}

// Lanes over chains.
void AdvanceQueriesImpl(const HeadEncoder& head, const Table& table,
                        const SplitLags& lags, int sources, int64_t rows,
                        int64_t stride, float* out) {
  const DecayLane d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  const bool common = head.common_source() >= 0;
  for (const HeadEncoder::ChainGroup& group : head.chain_groups()) {
    for (int64_t i = 0; i < group.count; i += n) {
      const int64_t live = std::min<int64_t>(n, group.count - i);
      for (int64_t r = 0; r < rows; ++r) {
        DecayVector e, z;
        Factors(d, table, group.factor_offset + static_cast<int>(i), live,
                common, lags.hi.data() + r * sources,
                lags.lo.data() + r * sources, e, z);
        float* at = out + r * stride + group.first + i;
        if (group.order == 1) {
          StoreFirst(hn::Mul(e, LoadFirst(d, at, live)), d, at, live);
          continue;
        }
        DecayVector x[kMaxJets], y[kMaxJets], power[kMaxJets];
        for (int jet = 0; jet < group.order; ++jet) {
          x[jet] = LoadFirst(d, at + jet * group.count, live);
        }
        Powers(d, e, z, group.order, power);
        Combine<true>(power, group.order, x, y);
        for (int jet = 0; jet < group.order; ++jet) {
          StoreFirst(y[jet], d, at + jet * group.count, live);
        }
      }
    }
  }
}

void AdvanceKeysImpl(const Table& table, const SplitLags& lags, int chain,
                     int end, const uint8_t* late, const float* src,
                     float* dst) {
  for (; chain < end; ++chain) {
    const int64_t lag = int64_t{table.source[chain]} * kLinearChunk;
    const int64_t first = int64_t{table.first[chain]} * kLinearChunk;
    const int64_t step = int64_t{table.step[chain]} * kLinearChunk;
    if (late != nullptr && late[chain] != 0) {
      for (int jet = 0; jet < table.order[chain]; ++jet) {
        std::fill_n(dst + first + jet * step, kLinearChunk, 0.0f);
      }
      continue;
    }
    AdvanceChain<false>(table, chain, lags.hi.data() + lag,
                        lags.lo.data() + lag, kLinearChunk, src + first, step,
                        dst + first, step);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(AdvanceQueriesImpl);
HWY_EXPORT(AdvanceKeysImpl);

}  // namespace

void LinearDecays::Table::Clear() {
  rate_hi.clear();
  rate_lo.clear();
  coupling.clear();
  order.clear();
  first.clear();
  step.clear();
  source.clear();
}

void LinearDecays::Table::Take(const Table& other, int i) {
  rate_hi.push_back(other.rate_hi[i]);
  rate_lo.push_back(other.rate_lo[i]);
  coupling.push_back(other.coupling[i]);
  order.push_back(other.order[i]);
  first.push_back(other.first[i]);
  step.push_back(other.step[i]);
  source.push_back(other.source[i]);
}

void LinearDecays::Select(const HeadEncoder* head, bool mirrored,
                          int64_t padded) {
  head_ = head;
  mirrored_ = mirrored;
  table_.Clear();
  small_norm_.clear();
  live_.clear();
  chains_ = 0;
  plain_.assign(1, {0, padded});
  if (head == nullptr) return;
  chains_ = static_cast<int>(head->rates().size());
  for (int i = 0; i < chains_; ++i) {
    const HeadEncoder::ChainGroup& group = head->group_of(i);
    const double rate = head->exact_rates()[i];
    table_.rate_hi.push_back(static_cast<float>(rate));
    table_.rate_lo.push_back(
        static_cast<float>(rate - static_cast<double>(table_.rate_hi.back())));
    table_.coupling.push_back(head->couplings()[i]);
    table_.order.push_back(group.order);
    table_.first.push_back(group.first + i - group.factor_offset);
    table_.step.push_back(group.count);
    table_.source.push_back(head->chain_sources()[i]);
    if (rate != 0 || (group.order > 1 && head->couplings()[i] != 0)) {
      live_.push_back(i);
    }
  }
  for (size_t s = 0; s < head->smalls().size(); ++s) {
    double norm = 0;
    for (double x : head->smalls()[s].matrix) norm += std::abs(x);
    small_norm_.push_back(norm);
    live_.push_back(chains_ + static_cast<int>(s));
  }
  FindPlain(padded);
}

void LinearDecays::FindPlain(int64_t padded) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (const HeadEncoder::ChainGroup& group : head_->chain_groups()) {
    taken.emplace_back(group.first,
                       group.first + int64_t{group.order} * group.count);
  }
  for (const HeadEncoder::Small& small : head_->smalls()) {
    taken.emplace_back(small.first, small.first + small.size);
  }
  std::sort(taken.begin(), taken.end());
  taken.emplace_back(padded, padded);
  plain_.clear();
  int64_t done = 0;
  for (const auto& [first, last] : taken) {
    if (first > done) plain_.emplace_back(done, first);
    done = last;
  }
}

int LinearDecays::SourceOf(int part) const {
  return part < chains_ ? table_.source[part]
                        : head_->smalls()[part - chains_].source;
}

bool LinearDecays::MayGrow(int part, double span) const {
  if (part >= chains_) return small_norm_[part - chains_] * span <= 1;
  if (!(head_->exact_rates()[part] * span <= kMaxLinearGrowth)) return false;
  const int order = table_.order[part];
  return order == 1 ||
         std::abs(head_->exact_couplings()[part]) * span * (order - 1) <=
             kMaxLinearPowers;
}

const std::vector<double>& LinearDecays::SmallMatrix(int small) const {
  const HeadEncoder::Small& block = head_->smalls()[small];
  return mirrored_ ? block.mirrored : block.matrix;
}

std::vector<double> LinearDecays::SmallExp(int small, double lag) const {
  return MatrixExp(SmallMatrix(small), head_->smalls()[small].size, lag);
}

void MultiplySmall(const std::vector<double>& matrix, bool transposed,
                   const float* x, int64_t x_step, float* y, int64_t y_step) {
  const auto size = static_cast<int64_t>(std::lround(std::sqrt(matrix.size())));
  std::vector<double> sum(size, 0.0);
  for (int64_t r = 0; r < size; ++r) {
    for (int64_t c = 0; c < size; ++c) {
      sum[r] +=
          matrix[transposed ? c * size + r : r * size + c] * x[c * x_step];
    }
  }
  for (int64_t r = 0; r < size; ++r) y[r * y_step] = static_cast<float>(sum[r]);
}

void LinearDecays::AdvanceQueries(const SplitLags& lags, int sources,
                                  int64_t rows, int64_t stride,
                                  float* out) const {
  if (live_.empty()) return;
  HWY_DYNAMIC_DISPATCH(AdvanceQueriesImpl)
  (*head_, table_, lags, sources, rows, stride, out);
  for (size_t s = 0; s < head_->smalls().size(); ++s) {
    const HeadEncoder::Small& small = head_->smalls()[s];
    for (int64_t r = 0; r < rows; ++r) {
      float* at = out + r * stride + small.first;
      MultiplySmall(
          SmallExp(static_cast<int>(s), lags.At(r * sources + small.source)),
          true, at, 1, at, 1);
    }
  }
}

void LinearDecays::AdvanceKeys(const SplitLags& lags,
                               const std::vector<uint8_t>& late,
                               const float* src, float* dst) const {
  for (const auto& [first, last] : plain_) {
    std::copy(src + first * kLinearChunk, src + last * kLinearChunk,
              dst + first * kLinearChunk);
  }
  if (chains_ > 0) {
    HWY_DYNAMIC_DISPATCH(AdvanceKeysImpl)
    (table_, lags, 0, chains_, late.data(), src, dst);
  }
  if (head_ == nullptr) return;
  for (size_t s = 0; s < head_->smalls().size(); ++s) {
    const int part = chains_ + static_cast<int>(s);
    if (late[part] == 0) {
      AdvanceParts(lags, {part}, src, dst);
      continue;
    }
    const HeadEncoder::Small& small = head_->smalls()[s];
    std::fill_n(dst + small.first * kLinearChunk, small.size * kLinearChunk,
                0.0f);
  }
}

void LinearDecays::AdvanceParts(const SplitLags& lags,
                                const std::vector<int>& parts, const float* src,
                                float* dst) const {
  for (int part : parts) {
    if (part < chains_) {
      HWY_DYNAMIC_DISPATCH(AdvanceKeysImpl)
      (table_, lags, part, part + 1, nullptr, src, dst);
      continue;
    }
    const HeadEncoder::Small& small = head_->smalls()[part - chains_];
    for (int64_t j = 0; j < kLinearChunk; ++j) {
      const int64_t at = small.first * kLinearChunk + j;
      MultiplySmall(
          SmallExp(part - chains_, lags.At(small.source * kLinearChunk + j)),
          false, src + at, kLinearChunk, dst + at, kLinearChunk);
    }
  }
}

}  // namespace attnd
#endif  // HWY_ONCE
