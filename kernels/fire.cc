#include "kernels/fire.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/lag_curve.h"
#include "kernels/lag_plane.h"
#include "kernels/lag_runs.h"

namespace attnd {
namespace {

class Fire : public LagTerm {
 public:
  Fire(const FireTerm& term, int query_heads, const TickRatio& ratio);

  double Exact(int head, const LagPoint& point) const override {
    return Sum(head, Position(point), false);
  }
  double Size(int head, const LagPoint& point) const override {
    return Sum(head, Position(point), true);
  }
  double Supremum(int, double, double) const override {
    return std::numeric_limits<double>::infinity();
  }
  void Prepare(const LagRectangle& tile, LagScratch* scratch,
               LagPart* part) const override;
  void Add(int head, const LagRectangle& tile, const LagPart& part,
           int64_t stride, float* logits) const override {
    const size_t row = head * (knots_.size() + 1);
    AddPlaneLines(tile, part, values_.data() + row, slopes_.data() + row,
                  stride, logits);
  }

 private:
  // ln(1 + c units), the product up to the largest double.
  double LogOf(double units) const;
  double Normaliser(double elapsed_ticks) const;
  double Position(const LagPoint& point) const;
  double Sum(int head, double u, bool sizes) const;
  void FindLines(int head);

  FireTerm term_;
  double units_per_tick_;
  std::vector<double> knots_;            // of f, ascending, > 0
  std::vector<double> values_, slopes_;  // [heads, segments], of f over u
};

Fire::Fire(const FireTerm& term, int query_heads, const TickRatio& ratio)
    : term_(term), units_per_tick_(ratio.units_per_tick()) {
  for (int j = 0; j < term.hidden; ++j) {
    const double knot = -double{term.b1[j]} / double{term.w1[j]};
    if (std::isfinite(knot) && knot > 0) knots_.push_back(knot);
  }
  std::sort(knots_.begin(), knots_.end());
  knots_.erase(std::unique(knots_.begin(), knots_.end()), knots_.end());
  for (int head = 0; head < query_heads; ++head) FindLines(head);
}

// Which units are active does not change between two knots.
void Fire::FindLines(int head) {
  const int row = term_.b2.size() == 1 ? 0 : head;
  for (size_t s = 0; s <= knots_.size(); ++s) {
    const double low = s == 0 ? 0 : knots_[s - 1];
    const double inside =
        s == knots_.size() ? 2 * low + 1 : low + (knots_[s] - low) / 2;
    double value = term_.b2[row], slope = 0;
    for (int j = 0; j < term_.hidden; ++j) {
      const double w1 = term_.w1[j], b1 = term_.b1[j];
      const double w2 = term_.w2[row * term_.hidden + j];
      if (w1 * inside + b1 <= 0) continue;
      value += w2 * b1;
      slope += w2 * w1;
    }
    values_.push_back(value);
    slopes_.push_back(slope);
  }
}

double Fire::LogOf(double units) const {
  return std::log1p(std::min(term_.c * units, DBL_MAX));
}

double Fire::Normaliser(double elapsed_ticks) const {
  return LogOf(std::max(elapsed_ticks * units_per_tick_, term_.threshold)) +
         kFireEpsilon;
}

double Fire::Position(const LagPoint& point) const {
  return LogOf(std::fabs(point.Lag()) * units_per_tick_) /
         Normaliser(point.elapsed);
}

double Fire::Sum(int head, double u, bool sizes) const {
  const int row = term_.b2.size() == 1 ? 0 : head;
  double sum = sizes ? std::fabs(term_.b2[row]) : term_.b2[row];
  for (int j = 0; j < term_.hidden; ++j) {
    const double w1 = term_.w1[j], b1 = term_.b1[j];
    const double w2 = term_.w2[row * term_.hidden + j];
    if (w1 * u + b1 <= 0) continue;
    sum += sizes ? std::fabs(w2) * (std::fabs(w1) * u + std::fabs(b1))
                 : w2 * (w1 * u + b1);
  }
  return sum;
}

void Fire::Prepare(const LagRectangle& tile, LagScratch*, LagPart* part) const {
  const ItemGeometry& item = *tile.item;
  part->row_factor.clear();
  for (int64_t i = tile.first; i < tile.first + tile.rows; ++i) {
    double elapsed = 0;
    if (item.key_rows > 0) {
      elapsed =
          item.exact
              ? static_cast<double>(item.query_ticks[i] - item.key_ticks[0])
              : item.query_real[i] - item.key_real[0];
    }
    part->row_factor.push_back(1 / Normaliser(elapsed));
  }
  SetLogPlane(term_.c * units_per_tick_, tile, part);
  FindPlaneRuns(tile, knots_, part);
}

}  // namespace

std::unique_ptr<LagTerm> MakeFire(const FireTerm& term, int query_heads,
                                  const TickRatio& ratio) {
  return std::make_unique<Fire>(term, query_heads, ratio);
}

}  // namespace attnd
