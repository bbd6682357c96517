#include "kernels/linear_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/matrix_exp.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear_sums.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kMaxJets = 4;

// y_r = sum_i (a_i S_{r+i} + b_i delta_{r+i}) over the rows of one chain.
void StepChainImpl(int order, const double* a, const double* b, double* sums,
                   const float* delta, float* rounded, int64_t step,
                   int64_t width) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t w = 0; w < width; w += n) {
    hn::Vec<decltype(d)> s[kMaxJets], x[kMaxJets];
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

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(StepChainImpl);

constexpr int kMaxOrder = 4;

void Powers(double rate, double coupling, double lag, int order, double* out) {
  out[0] = std::exp(-rate * lag);
  for (int r = 1; r < order; ++r) {
    out[r] = out[0] == 0 ? 0 : out[r - 1] * coupling * lag / r;
  }
}

}  // namespace

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
  const auto rows = [&](int64_t first, int order, int64_t step, const double* a,
                        const double* b) {
    const int64_t at = first * width_;
    HWY_DYNAMIC_DISPATCH(StepChainImpl)
    (order, a, b, exact_.data() + at, delta == nullptr ? nullptr : delta + at,
     rounded_.data() + at, step * width_, width_);
  };
  // Rows of no part just add up.
  const double one = 1;
  int64_t done = 0;
  const auto plain = [&](int64_t end) {
    for (; done < end; ++done) rows(done, 1, 1, &one, &one);
  };
  const HeadEncoder* head = decays.head();
  if (head == nullptr) return plain(dim_);
  if (!head->smalls().empty()) {
    StepSmalls(decays, lags, late_lags, late, delta);
  }
  // In order of their first row: chain groups, small blocks between them.
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (const HeadEncoder::ChainGroup& group : head->chain_groups()) {
    taken.emplace_back(group.first,
                       group.first + int64_t{group.order} * group.count);
    for (int i = 0; i < group.count; ++i) {
      const int chain = group.factor_offset + i;
      const int source = head->chain_sources()[chain];
      const double rate = head->exact_rates()[chain];
      const double coupling = head->exact_couplings()[chain];
      double a[kMaxOrder], b[kMaxOrder];
      Powers(rate, coupling, lags[source], group.order, a);
      if (delta != nullptr && late[chain] != 0) {
        Powers(rate, coupling, late_lags[source], group.order, b);
      } else {
        std::copy_n(a, group.order, b);
      }
      rows(group.first + i, group.order, group.count, a, b);
    }
  }
  for (const HeadEncoder::Small& small : head->smalls()) {
    taken.emplace_back(small.first, small.first + small.size);
  }
  std::sort(taken.begin(), taken.end());
  for (const auto& [first, last] : taken) {
    plain(first);
    done = last;
  }
  plain(dim_);
}

void LinearSums::StepSmalls(const LinearDecays& decays, const double* lags,
                            const double* late_lags,
                            const std::vector<uint8_t>& late,
                            const float* delta) {
  const HeadEncoder& head = *decays.head();
  for (size_t i = 0; i < head.smalls().size(); ++i) {
    const HeadEncoder::Small& small = head.smalls()[i];
    const std::vector<double>& matrix = decays.SmallMatrix(static_cast<int>(i));
    const bool is_late = late[decays.chains() + i] != 0;
    const std::vector<double> a =
        MatrixExp(matrix, small.size, lags[small.source]);
    const std::vector<double> b =
        delta != nullptr && is_late
            ? MatrixExp(matrix, small.size, late_lags[small.source])
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
