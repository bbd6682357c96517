#include "kernels/kerple.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/lag_curve.h"

namespace attnd {
namespace {

class Kerple : public LagTerm {
 public:
  Kerple(const KerpleTerm& term, int query_heads, const TickRatio& ratio);

  double Exact(int head, const LagPoint& point) const override;
  double Supremum(int head, double low, double high) const override {
    const double nearest =
        low <= 0 && high >= 0 ? 0.0 : std::min(std::fabs(low), std::fabs(high));
    return Exact(head, {.exact = false, .real = nearest});
  }
  void Prepare(const LagRectangle& tile, LagScratch*,
               LagPart* part) const override {
    if (power_) SetBinaryLogPlane(units_per_tick_, tile, part);
  }
  void Add(int head, const LagRectangle& tile, const LagPart& part,
           int64_t stride, float* logits) const override {
    if (power_) {
      SubtractPower(r1_[head], r2_[head], tile, part, stride, logits);
    } else {
      AddLog(-r1_[head], r2_[head] * units_per_tick_, tile, stride, logits);
    }
  }

 private:
  bool power_;
  double units_per_tick_;
  std::vector<double> r1_, r2_;  // per head
};

Kerple::Kerple(const KerpleTerm& term, int query_heads, const TickRatio& ratio)
    : power_(term.power), units_per_tick_(ratio.units_per_tick()) {
  for (int head = 0; head < query_heads; ++head) {
    r1_.push_back(term.r1[term.r1.size() == 1 ? 0 : head]);
    r2_.push_back(term.r2[term.r2.size() == 1 ? 0 : head]);
  }
}

double Kerple::Exact(int head, const LagPoint& point) const {
  const double lag =
      std::fabs(point.exact ? static_cast<double>(point.ticks) : point.real) *
      units_per_tick_;
  return power_ ? -r1_[head] * std::pow(lag, r2_[head])
                : -r1_[head] * std::log1p(r2_[head] * lag);
}

}  // namespace

std::unique_ptr<LagTerm> MakeKerple(const KerpleTerm& term, int query_heads,
                                    const TickRatio& ratio) {
  return std::make_unique<Kerple>(term, query_heads, ratio);
}

}  // namespace attnd
