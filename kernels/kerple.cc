#include "kernels/kerple.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include "kernels/lag_curve.h"

namespace attnd {
namespace {

// What AddLog is made for.
constexpr double kMostFactor = 1e30;
constexpr double kLeastRate = 1e-30, kMostRate = 1e17;
constexpr double kMostUnits = 1e20;

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
               LagPart* part) const override;
  void Add(int head, const LagRectangle& tile, const LagPart& part,
           int64_t stride, float* logits) const override;

 private:
  // For a head of any parameters and lags of any size.
  void AddEach(int head, const LagRectangle& tile, int64_t stride,
               float* logits) const;

  bool power_;
  double units_per_tick_;
  std::vector<double> r1_, r2_;  // per head
  bool moderate_ = true;         // r1 and r2 of a logarithm
};

Kerple::Kerple(const KerpleTerm& term, int query_heads, const TickRatio& ratio)
    : power_(term.power), units_per_tick_(ratio.units_per_tick()) {
  for (int head = 0; head < query_heads; ++head) {
    r1_.push_back(term.r1[term.r1.size() == 1 ? 0 : head]);
    r2_.push_back(term.r2[term.r2.size() == 1 ? 0 : head]);
    moderate_ = moderate_ && r1_.back() <= kMostFactor &&
                r2_.back() >= kLeastRate && r2_.back() <= kMostRate;
  }
}

double Kerple::Exact(int head, const LagPoint& point) const {
  const double lag = std::fabs(point.Lag()) * units_per_tick_;
  return power_ ? -r1_[head] * std::pow(lag, r2_[head])
                : -r1_[head] * std::log1p(std::min(r2_[head] * lag, DBL_MAX));
}

void Kerple::Prepare(const LagRectangle& tile, LagScratch*,
                     LagPart* part) const {
  const double per_unit = 1 / units_per_tick_;
  if (power_) {
    part->extreme = !tile.LagsWithin(0x1p-63 * per_unit, 0x1p63 * per_unit);
  } else {
    part->extreme = !moderate_ || !tile.LagsWithin(0, kMostUnits * per_unit);
  }
  if (part->extreme) return;
  if (power_) {
    SetBinaryLogPlane(units_per_tick_, tile, part);
  } else {
    SetLagPlane(units_per_tick_, tile, part);
  }
}

void Kerple::Add(int head, const LagRectangle& tile, const LagPart& part,
                 int64_t stride, float* logits) const {
  if (part.extreme) {
    AddEach(head, tile, stride, logits);
  } else if (power_) {
    SubtractPower(r1_[head], r2_[head], tile, part, stride, logits);
  } else {
    AddLog(-r1_[head], r2_[head], tile, part, stride, logits);
  }
}

void Kerple::AddEach(int head, const LagRectangle& tile, int64_t stride,
                     float* logits) const {
  for (int64_t r = 0; r < tile.rows; ++r) {
    for (int64_t c = tile.Begin(r); c < tile.End(r); ++c) {
      const double bias =
          Exact(head, PointOf(*tile.item, tile.first + r, tile.key + c));
      logits[r * stride + c] +=
          static_cast<float>(std::max(bias, -kLargestBias));
    }
  }
}

}  // namespace

std::unique_ptr<LagTerm> MakeKerple(const KerpleTerm& term, int query_heads,
                                    const TickRatio& ratio) {
  return std::make_unique<Kerple>(term, query_heads, ratio);
}

}  // namespace attnd
