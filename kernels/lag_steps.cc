#include "kernels/lag_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace attnd {
namespace {

// First entry of a head in a table of `width` columns for all heads or for one.
template <typename T>
const T* HeadRow(const std::vector<T>& table, size_t width, int head) {
  return table.data() + (table.size() == width ? 0 : head * width);
}

class StepTerm : public LagTerm {
 public:
  // values: [heads, segments].
  StepTerm(LagBorders borders, std::vector<float> values)
      : borders_(std::move(borders)), values_(std::move(values)) {}

  double Exact(int head, const LagPoint& point) const override {
    return Values(head)[borders_.Segment(point)];
  }
  double Supremum(int head, double low, double high) const override {
    const int first = borders_.Segment({.exact = false, .real = low});
    const int last = borders_.Segment({.exact = false, .real = high});
    return *std::max_element(Values(head) + first, Values(head) + last + 1);
  }
  void Prepare(const LagRectangle& tile, LagScratch* scratch,
               LagPart* part) const override {
    FindRuns(tile, borders_, scratch, part);
  }
  void Add(int head, const LagRectangle& tile, const LagPart& part,
           int64_t stride, float* logits) const override {
    AddSteps(tile, part, Values(head), stride, logits);
  }

 private:
  const float* Values(int head) const {
    return values_.data() + head * (borders_.real.size() + 1);
  }

  LagBorders borders_;
  std::vector<float> values_;
};

class LineTerm : public LagTerm {
 public:
  LineTerm(const LagTableTerm& term, int query_heads, const TickRatio& ratio);

  double Exact(int head, const LagPoint& point) const override;
  double Size(int head, const LagPoint& point) const override;
  double Supremum(int head, double low, double high) const override;
  void Prepare(const LagRectangle& tile, LagScratch* scratch,
               LagPart* part) const override {
    FindRuns(tile, borders_, scratch, part);
    FindShares(tile, knots_.data(), part);
  }
  void Add(int head, const LagRectangle& tile, const LagPart& part,
           int64_t stride, float* logits) const override {
    AddLines(tile, part, Lines(head), stride, logits);
  }

 private:
  const LagLine* Lines(int head) const {
    return lines_.data() + head * knots_.size();
  }
  double Share(int segment, const LagPoint& point) const {
    const double ticks =
        point.exact ? static_cast<double>(point.ticks) : point.real;
    return (ticks - knots_[segment].anchor) * knots_[segment].inverse_width;
  }

  LagBorders borders_;
  std::vector<LagKnot> knots_;  // per segment
  std::vector<LagLine> lines_;  // [heads, segments]
  std::vector<double> ends_;    // [heads, segments], value at a segment's end
};

// The knots of a table on the signed lag.
struct Knots {
  std::vector<double> lags;    // units
  std::vector<double> values;  // of one head
};

Knots SignedKnots(const LagTableTerm& term, int head) {
  const size_t n = term.lags.size();
  const float* values = HeadRow(term.values, n, head);
  Knots knots;
  if (term.absolute_lag) {
    for (size_t i = n; i-- > (term.lags[0] == 0 ? 1u : 0u);) {
      knots.lags.push_back(-term.lags[i]);
      knots.values.push_back(values[i]);
    }
  }
  knots.lags.insert(knots.lags.end(), term.lags.begin(), term.lags.end());
  knots.values.insert(knots.values.end(), values, values + n);
  return knots;
}

LineTerm::LineTerm(const LagTableTerm& term, int query_heads,
                   const TickRatio& ratio) {
  const double ticks_per_unit =
      static_cast<double>(ratio.unit_ns) / static_cast<double>(ratio.tick_ns);
  const std::vector<double> lags = SignedKnots(term, 0).lags;
  const size_t n = lags.size();
  knots_.push_back({});
  for (size_t k = 0; k < n; ++k) {
    AppendBorder(lags[k], ratio.unit_ns, ratio.tick_ns, &borders_);
    const double width = k + 1 < n ? lags[k + 1] - lags[k] : 0;
    knots_.push_back(
        {.anchor = lags[k] * ticks_per_unit,
         .inverse_width = width == 0 ? 0 : 1 / (width * ticks_per_unit)});
  }
  for (int head = 0; head < query_heads; ++head) {
    const std::vector<double> values = SignedKnots(term, head).values;
    for (size_t s = 0; s <= n; ++s) {
      const double start = values[s == 0 ? 0 : s - 1];
      const double end = values[std::min(s, n - 1)];
      lines_.push_back({.value = static_cast<float>(start),
                        .rise = static_cast<float>(end - start)});
      ends_.push_back(end);
    }
  }
}

double LineTerm::Exact(int head, const LagPoint& point) const {
  const int s = borders_.Segment(point);
  const double start = Lines(head)[s].value;
  const double end = ends_[head * knots_.size() + s];
  return start + (end - start) * Share(s, point);
}

// Start and rise of the segment, which are added up.
double LineTerm::Size(int head, const LagPoint& point) const {
  const int s = borders_.Segment(point);
  const double start = Lines(head)[s].value;
  const double end = ends_[head * knots_.size() + s];
  return std::fabs(start) + std::fabs((end - start) * Share(s, point));
}

double LineTerm::Supremum(int head, double low, double high) const {
  const LagPoint from{.exact = false, .real = low};
  const LagPoint to{.exact = false, .real = high};
  double most = std::max(Exact(head, from), Exact(head, to));
  for (int s = borders_.Segment(from) + 1; s <= borders_.Segment(to); ++s) {
    most = std::max(most, double{Lines(head)[s].value});
  }
  return most;
}

LagBorders Borders(const std::vector<long double>& units,
                   const TickRatio& ratio) {
  LagBorders borders;
  for (const long double unit : units) {
    AppendBorder(unit, ratio.unit_ns, ratio.tick_ns, &borders);
  }
  return borders;
}

// [heads, segments] from rows of buckets in the order of the segments.
std::vector<float> Arrange(const std::vector<float>& table, int buckets,
                           int query_heads, const std::vector<int>& order) {
  std::vector<float> values;
  for (int head = 0; head < query_heads; ++head) {
    const float* row = HeadRow(table, static_cast<size_t>(buckets), head);
    for (const int bucket : order) values.push_back(row[bucket]);
  }
  return values;
}

}  // namespace

std::vector<long double> T5Borders(const T5Term& term) {
  const int buckets = term.bidirectional ? term.buckets / 2 : term.buckets;
  const int exact = buckets / 2;
  std::vector<long double> borders;
  for (int k = 1; k < buckets; ++k) {
    if (k <= exact) {
      borders.push_back(k);
      continue;
    }
    const long double share =
        static_cast<long double>(k - exact) / (buckets - exact);
    borders.push_back(
        exact *
        std::pow(static_cast<long double>(term.max_distance) / exact, share));
  }
  return borders;
}

std::vector<long double> HstuBorders(const HstuTerm& term) {
  std::vector<long double> borders;
  for (int k = 1; k <= term.max_bucket; ++k) {
    borders.push_back(std::exp(static_cast<long double>(term.log_step) * k));
  }
  return borders;
}

std::unique_ptr<LagTerm> MakeT5(const T5Term& term, int query_heads,
                                const TickRatio& ratio) {
  LagBorders borders = Borders(T5Borders(term), ratio);
  const int past = static_cast<int>(borders.real.size()) + 1;
  std::vector<int> order;
  if (term.bidirectional) {
    MirrorBorders(&borders);
    for (int n = past - 1; n >= 1; --n) order.push_back(past + n);
  }
  for (int n = 0; n < past; ++n) order.push_back(n);
  return std::make_unique<StepTerm>(
      std::move(borders),
      Arrange(term.table, term.buckets, query_heads, order));
}

std::unique_ptr<LagTerm> MakeHstu(const HstuTerm& term, int query_heads,
                                  const TickRatio& ratio) {
  LagBorders borders = Borders(HstuBorders(term), ratio);
  MirrorBorders(&borders);
  std::vector<int> order;
  for (int n = term.max_bucket; n >= 1; --n) order.push_back(n);
  for (int n = 0; n <= term.max_bucket; ++n) order.push_back(n);
  return std::make_unique<StepTerm>(
      std::move(borders),
      Arrange(term.table, term.max_bucket + 1, query_heads, order));
}

std::unique_ptr<LagTerm> MakeLagTable(const LagTableTerm& term, int query_heads,
                                      const TickRatio& ratio) {
  return std::make_unique<LineTerm>(term, query_heads, ratio);
}

}  // namespace attnd
