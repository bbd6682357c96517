#include "kernels/linear_decays.h"

#include <algorithm>
#include <cmath>

#include "kernels/matrix_exp.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_decays.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/exp-inl.h"
#include "kernels/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

using Lane = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Lane>;
using Table = LinearDecays::Table;

constexpr int kMaxOrder = 4;

// e^(-rate lag). The product's rounding is caught by a fused multiply and put
// back as a factor 1 - rest.
HWY_INLINE Vector Decay(Lane d, Vector rate_hi, Vector rate_lo, Vector lag_hi,
                        Vector lag_lo) {
  const Vector p = hn::Mul(rate_hi, lag_hi);
  Vector rest = hn::MulSub(rate_hi, lag_hi, p);
  rest = hn::MulAdd(rate_hi, lag_lo, rest);
  rest = hn::MulAdd(rate_lo, lag_hi, rest);
  // Where the product overflows the rest is NaN and the factor 0.
  rest = hn::IfThenElseZero(hn::Lt(p, hn::Set(d, 200.0f)), rest);
  const Vector e = Exp(d, hn::Neg(p));
  return hn::NegMulAdd(e, rest, e);
}

// y_r = e sum_i z^i / i! x_{r-i} (transposed) or x_{r+i}; 0 where e is 0 even
// if a power overflowed, but NaN stays NaN.
template <bool kTransposed>
HWY_INLINE void Polynomial(Lane d, Vector e, Vector z, int order,
                           const Vector* x, Vector* y) {
  Vector power[kMaxOrder];
  power[0] = e;
  const auto alive = hn::Gt(e, hn::Zero(d));
  for (int i = 1; i < order; ++i) {
    power[i] = hn::IfThenElseZero(
        alive, hn::Mul(power[i - 1],
                       hn::Mul(z, hn::Set(d, 1.0f / static_cast<float>(i)))));
  }
  for (int r = 0; r < order; ++r) {
    Vector sum = hn::Mul(power[0], x[r]);
    const int terms = kTransposed ? r : order - 1 - r;
    for (int i = 1; i <= terms; ++i) {
      sum = hn::MulAdd(power[i], x[kTransposed ? r - i : r + i], sum);
    }
    y[r] = sum;
  }
}

// e and z of the chains [begin, begin + live) of a table at one lag per source.
HWY_INLINE void Factors(Lane d, const Table& table, int begin, int64_t live,
                        bool common, const float* hi, const float* lo,
                        Vector& e, Vector& z) {
  Vector lag_hi, lag_lo;
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
void AdvanceQueryImpl(const HeadEncoder& head, const Table& table,
                      const float* hi, const float* lo, float* row) {
  const Lane d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  const bool common = head.common_source() >= 0;
  for (const HeadEncoder::ChainGroup& group : head.chain_groups()) {
    for (int64_t i = 0; i < group.count; i += n) {
      const int64_t live = std::min<int64_t>(n, group.count - i);
      Vector e, z;
      Factors(d, table, group.factor_offset + static_cast<int>(i), live, common,
              hi, lo, e, z);
      float* at = row + group.first + i;
      if (group.order == 1) {
        StoreFirst(hn::Mul(e, LoadFirst(d, at, live)), d, at, live);
        continue;
      }
      Vector x[kMaxOrder], y[kMaxOrder];
      for (int r = 0; r < group.order; ++r) {
        x[r] = LoadFirst(d, at + r * group.count, live);
      }
      Polynomial<true>(d, e, z, group.order, x, y);
      for (int r = 0; r < group.order; ++r) {
        StoreFirst(y[r], d, at + r * group.count, live);
      }
    }
  }
}

// One chain over 64 columns, or over [first, last) with zeros around it, in
// whole vectors. Jet r of src at src + r * src_step, of dst at dst + r * 64.
HWY_INLINE void AdvanceChain(const Table& table, int chain, const float* hi,
                             const float* lo, const float* src,
                             int64_t src_step, int64_t first, int64_t last,
                             float* dst, int64_t dst_step) {
  const Lane d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  const Vector rate_hi = hn::Set(d, table.rate_hi[chain]);
  const Vector rate_lo = hn::Set(d, table.rate_lo[chain]);
  const Vector coupling = hn::Set(d, table.coupling[chain]);
  const int order = table.order[chain];
  for (int64_t j = first / n * n; j < last; j += n) {
    const Vector lag_hi = hn::LoadU(d, hi + j), lag_lo = hn::LoadU(d, lo + j);
    Vector e = Decay(d, rate_hi, rate_lo, lag_hi, lag_lo);
    if (j < first || j + n > last) {
      auto inside = hn::FirstN(d, static_cast<size_t>(last - j));
      if (j < first) {
        inside =
            hn::AndNot(hn::FirstN(d, static_cast<size_t>(first - j)), inside);
      }
      e = hn::IfThenElseZero(inside, e);
    }
    if (order == 1) {
      hn::StoreU(hn::Mul(e, hn::LoadU(d, src + j)), d, dst + j);
      continue;
    }
    Vector x[kMaxOrder], y[kMaxOrder];
    for (int r = 0; r < order; ++r) {
      x[r] = hn::LoadU(d, src + r * src_step + j);
    }
    Polynomial<false>(d, e, hn::Mul(coupling, lag_hi), order, x, y);
    for (int r = 0; r < order; ++r) {
      hn::StoreU(y[r], d, dst + r * dst_step + j);
    }
  }
}

void AdvanceKeysImpl(const Table& table, const SplitLags& lags,
                     const SplitLags& late_lags, const uint8_t* late,
                     const float* src, float* dst) {
  for (int chain = 0; chain < table.count(); ++chain) {
    const SplitLags& its = late[chain] != 0 ? late_lags : lags;
    const int64_t at = int64_t{table.source[chain]} * kLinearChunk;
    const int64_t first = int64_t{table.first[chain]} * kLinearChunk;
    const int64_t step = int64_t{table.step[chain]} * kLinearChunk;
    AdvanceChain(table, chain, its.hi.data() + at, its.lo.data() + at,
                 src + first, step, 0, kLinearChunk, dst + first, step);
  }
}

// logits[j] += sum_f q[f] k[f, j] over whole vectors that cover [first, last).
HWY_INLINE void AddDots(const float* HWY_RESTRICT q, int count,
                        const float* HWY_RESTRICT k, int64_t first,
                        int64_t last, float* HWY_RESTRICT logits) {
  const Lane d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = first / n * n; j < last; j += n) {
    Vector a = hn::LoadU(d, logits + j), b = hn::Zero(d);
    int f = 0;
    for (; f + 2 <= count; f += 2) {
      a = hn::MulAdd(hn::Set(d, q[f]), hn::LoadU(d, k + f * kLinearChunk + j),
                     a);
      b = hn::MulAdd(hn::Set(d, q[f + 1]),
                     hn::LoadU(d, k + (f + 1) * kLinearChunk + j), b);
    }
    if (f < count) {
      a = hn::MulAdd(hn::Set(d, q[f]), hn::LoadU(d, k + f * kLinearChunk + j),
                     a);
    }
    hn::StoreU(hn::Add(a, b), d, logits + j);
  }
}

// `moved` holds [jets, 64] floats, `advanced` 2 * 16 + jets.
void AddSharesImpl(const Table& some, const SplitLags& row_lags,
                   const SplitLags& key_lags, const float* queries,
                   int64_t rows, int64_t stride, const float* keys,
                   int64_t first, int64_t last, int sources, float* moved,
                   float* advanced, float* logits) {
  const Lane d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  const int count = some.count();
  int jets = 0;
  bool common = true;
  for (int i = 0; i < count; ++i) {
    const int64_t at = int64_t{some.source[i]} * kLinearChunk;
    AdvanceChain(some, i, key_lags.hi.data() + at, key_lags.lo.data() + at,
                 keys + some.first[i] * kLinearChunk,
                 some.step[i] * kLinearChunk, first, last,
                 moved + jets * kLinearChunk, kLinearChunk);
    jets += some.order[i];
    common = common && some.source[i] == some.source[0];
  }
  HWY_ALIGN float e[16], z[16];
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = queries + r * stride;
    float* out = advanced;
    for (int i = 0; i < count; i += static_cast<int>(n)) {
      const int64_t live = std::min<int64_t>(n, count - i);
      Vector ev, zv;
      Factors(d, some, i, live, common, row_lags.hi.data() + r * sources,
              row_lags.lo.data() + r * sources, ev, zv);
      hn::Store(ev, d, e);
      hn::Store(zv, d, z);
      for (int64_t l = 0; l < live; ++l) {
        const int order = some.order[i + l];
        const float* x = row + some.first[i + l];
        const int step = some.step[i + l];
        for (int jet = 0; jet < order; ++jet) {
          float power = e[l], sum = power * x[jet * step];
          for (int p = 1; p <= jet; ++p) {
            power = e[l] > 0 ? power * z[l] / static_cast<float>(p) : 0;
            sum += power * x[(jet - p) * step];
          }
          *out++ = sum;
        }
      }
    }
    AddDots(advanced, jets, moved, first, last, logits + r * kLinearChunk);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(AdvanceQueryImpl);
HWY_EXPORT(AdvanceKeysImpl);
HWY_EXPORT(AddSharesImpl);

// y = M x or M^T x, strided.
void Multiply(const std::vector<double>& matrix, int size, bool transposed,
              const float* x, int64_t x_step, float* y, int64_t y_step) {
  std::vector<double> sum(size, 0.0);
  for (int r = 0; r < size; ++r) {
    for (int c = 0; c < size; ++c) {
      sum[r] +=
          matrix[transposed ? c * size + r : r * size + c] * x[c * x_step];
    }
  }
  for (int r = 0; r < size; ++r) y[r * y_step] = static_cast<float>(sum[r]);
}

double LagOf(const SplitLags& lags, size_t i) {
  return static_cast<double>(lags.hi[i]) + static_cast<double>(lags.lo[i]);
}

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

void LinearDecays::Select(const HeadEncoder* head, bool mirrored) {
  head_ = head;
  mirrored_ = mirrored;
  table_.Clear();
  small_norm_.clear();
  live_.clear();
  chains_ = 0;
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

void LinearDecays::AdvanceQuery(const float* hi, const float* lo,
                                float* row) const {
  if (live_.empty()) return;
  HWY_DYNAMIC_DISPATCH(AdvanceQueryImpl)
  (*head_, table_, hi, lo, row);
  for (size_t s = 0; s < head_->smalls().size(); ++s) {
    const HeadEncoder::Small& small = head_->smalls()[s];
    Multiply(MatrixExp(SmallMatrix(static_cast<int>(s)), small.size,
                       double{hi[small.source]} + double{lo[small.source]}),
             small.size, true, row + small.first, 1, row + small.first, 1);
  }
}

void LinearDecays::AdvanceKeys(const SplitLags& lags,
                               const SplitLags& late_lags,
                               const std::vector<uint8_t>& late, int64_t dim,
                               const float* src, float* dst) const {
  // Rows of no part; the others are overwritten.
  std::copy(src, src + dim * kLinearChunk, dst);
  if (live_.empty()) return;
  HWY_DYNAMIC_DISPATCH(AdvanceKeysImpl)
  (table_, lags, late_lags, late.data(), src, dst);
  for (size_t s = 0; s < head_->smalls().size(); ++s) {
    const HeadEncoder::Small& small = head_->smalls()[s];
    const SplitLags& its = late[chains_ + s] != 0 ? late_lags : lags;
    for (int64_t j = 0; j < kLinearChunk; ++j) {
      const int64_t at = small.first * kLinearChunk + j;
      Multiply(MatrixExp(SmallMatrix(static_cast<int>(s)), small.size,
                         LagOf(its, small.source * kLinearChunk + j)),
               small.size, false, src + at, kLinearChunk, dst + at,
               kLinearChunk);
    }
  }
}

void LinearDecays::Clear(const std::vector<int>& parts, int64_t rows,
                         int64_t stride, float* out) const {
  for (int part : parts) {
    const bool chain = part < chains_;
    const int first =
        chain ? table_.first[part] : head_->smalls()[part - chains_].first;
    const int count =
        chain ? table_.order[part] : head_->smalls()[part - chains_].size;
    const int step = chain ? table_.step[part] : 1;
    for (int64_t r = 0; r < rows; ++r) {
      for (int i = 0; i < count; ++i) out[r * stride + first + i * step] = 0;
    }
  }
}

void LinearDecays::AddShares(const std::vector<int>& parts,
                             const SplitLags& row_lags,
                             const SplitLags& key_lags, const float* queries,
                             int64_t rows, int64_t stride, const float* keys,
                             int64_t first, int64_t last, int sources,
                             float* logits) {
  some_.Clear();
  int jets = 0;
  for (int part : parts) {
    if (part >= chains_) continue;
    some_.rate_hi.push_back(table_.rate_hi[part]);
    some_.rate_lo.push_back(table_.rate_lo[part]);
    some_.coupling.push_back(table_.coupling[part]);
    some_.order.push_back(table_.order[part]);
    some_.first.push_back(table_.first[part]);
    some_.step.push_back(table_.step[part]);
    some_.source.push_back(table_.source[part]);
    jets += table_.order[part];
  }
  HWY_DYNAMIC_DISPATCH(AddSharesImpl)
  (some_, row_lags, key_lags, queries, rows, stride, keys, first, last, sources,
   moved_.Reserve(jets * kLinearChunk), advanced_.Reserve(jets), logits);
  for (int part : parts) {
    if (part < chains_) continue;
    const HeadEncoder::Small& small = head_->smalls()[part - chains_];
    const std::vector<double>& matrix = SmallMatrix(part - chains_);
    std::vector<float> key(small.size), query(small.size);
    std::vector<float> all(rows * small.size);
    for (int64_t r = 0; r < rows; ++r) {
      Multiply(MatrixExp(matrix, small.size,
                         LagOf(row_lags, r * sources + small.source)),
               small.size, true, queries + r * stride + small.first, 1,
               all.data() + r * small.size, 1);
    }
    for (int64_t j = first; j < last; ++j) {
      Multiply(MatrixExp(matrix, small.size,
                         LagOf(key_lags, small.source * kLinearChunk + j)),
               small.size, false, keys + small.first * kLinearChunk + j,
               kLinearChunk, key.data(), 1);
      for (int64_t r = 0; r < rows; ++r) {
        float dot = 0;
        for (int c = 0; c < small.size; ++c) {
          dot += all[r * small.size + c] * key[c];
        }
        logits[r * kLinearChunk + j] += dot;
      }
    }
  }
}

}  // namespace attnd
#endif  // HWY_ONCE
