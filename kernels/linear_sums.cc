#include "kernels/linear_sums.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_sums.cc"
// foreach_target.h comes first: it includes this file again.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Double = hn::CappedTag<double, 8>;
using Table = LinearDecays::Table;

// out[i * 4 + r] = e^(-rate lag) (coupling lag)^r / r! of chain i, one lag per
// source.
void PowersImpl(const HeadEncoder& head, const Table& table, const double* lags,
                double* out) {
  const Double d;
  const auto n = static_cast<int>(hn::Lanes(d));
  HWY_ALIGN double exponent[8] = {}, e[8];
  for (int i = 0; i < table.count(); i += n) {
    const int live = std::min(n, table.count() - i);
    for (int l = 0; l < live; ++l) {
      exponent[l] = -head.exact_rates()[i + l] * lags[table.source[i + l]];
    }
    hn::Store(hn::Exp(d, hn::Load(d, exponent)), d, e);
    for (int l = 0; l < live; ++l) {
      double* power = out + (i + l) * kMaxJets;
      power[0] = e[l];
      if (table.order[i + l] == 1) continue;
      const double z =
          head.exact_couplings()[i + l] * lags[table.source[i + l]];
      for (int r = 1; r < table.order[i + l]; ++r) {
        power[r] = e[l] == 0 ? 0 : power[r - 1] * z / r;
      }
    }
  }
}

// y_r = sum_i (a_i S_{r+i} + b_i delta_{r+i}) over the rows of one chain.
HWY_INLINE void StepChain(int order, const double* a, const double* b,
                          double* HWY_RESTRICT sums,
                          const float* HWY_RESTRICT delta,
                          float* HWY_RESTRICT rounded, int64_t step,
                          int64_t width) {
  const Double d;
  const hn::Rebind<float, Double> df;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t w = 0; w < width; w += n) {
    hn::Vec<Double> s[kMaxJets], x[kMaxJets];
    for (int r = 0; r < order; ++r) {
      s[r] = hn::LoadU(d, sums + r * step + w);
      if (delta != nullptr) {
        x[r] = hn::PromoteTo(d, hn::LoadU(df, delta + r * step + w));
      }
    }
    for (int r = 0; r < order; ++r) {
      auto y = hn::Mul(hn::Set(d, a[0]), s[r]);
      for (int i = 1; r + i < order; ++i) {
        y = hn::MulAdd(hn::Set(d, a[i]), s[r + i], y);
      }
      for (int i = 0; delta != nullptr && r + i < order; ++i) {
        y = hn::MulAdd(hn::Set(d, b[i]), x[r + i], y);
      }
      hn::StoreU(y, d, sums + r * step + w);
      hn::StoreU(hn::DemoteTo(df, y), df, rounded + r * step + w);
    }
  }
}

// All chains; a and b as PowersImpl gives them, b for chains with late[i].
void StepChainsImpl(const Table& table, const double* a, const double* b,
                    const uint8_t* late, double* sums, const float* delta,
                    float* rounded, int64_t width) {
  for (int i = 0; i < table.count(); ++i) {
    const int64_t at = table.first[i] * width;
    const double* own = a + i * kMaxJets;
    const double* added =
        delta != nullptr && late[i] != 0 ? b + i * kMaxJets : own;
    const float* from = delta == nullptr ? nullptr : delta + at;
    if (table.order[i] == 1) {
      StepChain(1, own, added, sums + at, from, rounded + at, 0, width);
    } else {
      StepChain(table.order[i], own, added, sums + at, from, rounded + at,
                table.step[i] * width, width);
    }
  }
}

// Rows of no part just add up.
void StepPlainImpl(int64_t count, double* sums, const float* delta,
                   float* rounded) {
  const double one = 1;
  StepChain(1, &one, &one, sums, delta, rounded, 0, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {

HWY_EXPORT(PowersImpl);
HWY_EXPORT(StepChainsImpl);
HWY_EXPORT(StepPlainImpl);

void LinearSums::Reset(int64_t dim, int64_t width) {
  dim_ = dim;
  width_ = width;
  exact_.assign(dim * width, 0.0);
  rounded_.Reserve(dim * width);
  std::fill_n(rounded_.data(), dim * width, 0.0f);
}

void LinearSums::Round() {
  for (int64_t i = 0; i < dim_ * width_; ++i) {
    rounded_.data()[i] = static_cast<float>(exact_[i]);
  }
}

void LinearSums::Spoil(int64_t column) {
  for (int64_t r = 0; r < dim_; ++r) {
    exact_[r * width_ + column] = std::numeric_limits<double>::quiet_NaN();
    rounded_.data()[r * width_ + column] =
        std::numeric_limits<float>::quiet_NaN();
  }
}

void LinearSums::Step(const LinearDecays& decays, const double* lags,
                      const double* late_lags, const std::vector<uint8_t>& late,
                      const float* delta) {
  for (const auto& [first, last] : decays.plain()) {
    const int64_t at = first * width_;
    HWY_DYNAMIC_DISPATCH(StepPlainImpl)
    ((last - first) * width_, exact_.data() + at,
     delta == nullptr ? nullptr : delta + at, rounded_.data() + at);
  }
  const HeadEncoder* head = decays.head();
  if (head == nullptr) return;
  if (decays.chains() > 0) {
    const int chains = decays.chains();
    powers_.resize(2 * static_cast<size_t>(chains) * kMaxJets);
    double* late_powers = powers_.data() + int64_t{chains} * kMaxJets;
    HWY_DYNAMIC_DISPATCH(PowersImpl)
    (*head, decays.table(), lags, powers_.data());
    if (delta != nullptr) {
      const bool any = std::any_of(late.begin(), late.begin() + chains,
                                   [](uint8_t is) { return is != 0; });
      if (any) {
        HWY_DYNAMIC_DISPATCH(PowersImpl)
        (*head, decays.table(), late_lags, late_powers);
      }
    }
    HWY_DYNAMIC_DISPATCH(StepChainsImpl)
    (decays.table(), powers_.data(), late_powers, late.data(), exact_.data(),
     delta, rounded_.data(), width_);
  }
  StepSmalls(decays, lags, late_lags, late, delta);
}

void LinearSums::StepSmalls(const LinearDecays& decays, const double* lags,
                            const double* late_lags,
                            const std::vector<uint8_t>& late,
                            const float* delta) {
  const HeadEncoder& head = *decays.head();
  for (size_t i = 0; i < head.smalls().size(); ++i) {
    const HeadEncoder::Small& small = head.smalls()[i];
    const int number = static_cast<int>(i);
    const std::vector<double> a = decays.SmallExp(number, lags[small.source]);
    const std::vector<double> b =
        delta != nullptr && late[decays.chains() + i] != 0
            ? decays.SmallExp(number, late_lags[small.source])
            : a;
    std::vector<double> y(small.size);
    for (int64_t w = 0; w < width_; ++w) {
      for (int r = 0; r < small.size; ++r) {
        y[r] = 0;
        for (int c = 0; c < small.size; ++c) {
          const int64_t at = (small.first + c) * width_ + w;
          y[r] += a[r * small.size + c] * exact_[at];
          if (delta != nullptr) y[r] += b[r * small.size + c] * delta[at];
        }
      }
      for (int r = 0; r < small.size; ++r) {
        const int64_t at = (small.first + r) * width_ + w;
        exact_[at] = y[r];
        rounded_.data()[at] = static_cast<float>(y[r]);
      }
    }
  }
}

}  // namespace attnd
#endif  // HWY_ONCE
