#include "kernels/kerple.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/lag_curve.h"
#include "kernels/lag_plane.h"

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
  void Prepare(const LagTile& tile, LagPart* part) const override;
  void Add(int head, const LagTile& tile, const LagPart& part, int64_t stride,
           float* logits) const override;

 private:
  std::vector<double> r1_, r2_;
  double units_per_tick_;
  std::vector<LagCurve> curves_;  // per head
  // Heads differ by a factor alone: the plane holds the curve with factor
  // shared_factor_.
  bool shared_ = false;
  double shared_factor_ = 0;
};

Kerple::Kerple(const KerpleTerm& term, int query_heads, const TickRatio& ratio)
    : units_per_tick_(ratio.units_per_tick()) {
  for (int head = 0; head < query_heads; ++head) {
    r1_.push_back(term.r1[term.r1.size() == 1 ? 0 : head]);
    r2_.push_back(term.r2[term.r2.size() == 1 ? 0 : head]);
    curves_.push_back({.power = term.power,
                       .factor = term.power ? -r1_[head] : -r1_[head] * M_LN2,
                       .rate = units_per_tick_ * (term.power ? 1 : r2_[head]),
                       .exponent = r2_[head]});
  }
  shared_ =
      query_heads > 1 && std::all_of(r2_.begin(), r2_.end(),
                                     [&](double r2) { return r2 == r2_[0]; });
  // The largest, so that what saturates in the plane saturates for all.
  for (const LagCurve& curve : curves_) {
    shared_factor_ = std::min(shared_factor_, curve.factor);
  }
}

double Kerple::Exact(int head, const LagPoint& point) const {
  const double lag =
      std::fabs(point.exact ? static_cast<double>(point.ticks) : point.real) *
      units_per_tick_;
  return curves_[head].power ? -r1_[head] * std::pow(lag, r2_[head])
                             : -r1_[head] * std::log1p(r2_[head] * lag);
}

void Kerple::Prepare(const LagTile& tile, LagPart* part) const {
  if (!shared_) return;
  LagCurve curve = curves_[0];
  curve.factor = shared_factor_;
  const int64_t stride = PlaneStride(tile.keys);
  SetCurve(curve, tile, stride, part->plane.Reserve(tile.rows * stride));
}

void Kerple::Add(int head, const LagTile& tile, const LagPart& part,
                 int64_t stride, float* logits) const {
  if (shared_) {
    if (shared_factor_ == 0) return;
    AddPlane(tile, part, curves_[head].factor / shared_factor_, stride, logits);
  } else {
    AddCurve(curves_[head], tile, stride, logits);
  }
}

}  // namespace

std::unique_ptr<LagTerm> MakeKerple(const KerpleTerm& term, int query_heads,
                                    const TickRatio& ratio) {
  return std::make_unique<Kerple>(term, query_heads, ratio);
}

}  // namespace attnd
