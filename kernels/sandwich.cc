#include "kernels/sandwich.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/circle_points.h"
#include "kernels/lag_plane.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sandwich.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Lane = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Lane>;

// Rows that share the loads of a key.
constexpr int kRowGroup = 4;
// Squares of a run of frequencies are summed before the sum meets larger ones,
// and sums of a group meet the total without rounding: the total of d squares
// is then good to about 1.5e-7.
constexpr int64_t kRun = 4;
constexpr int64_t kGroup = 8;

// kRowGroup rows times 2 vectors of keys.
struct Block {
  Vector at[kRowGroup][2];
  HWY_INLINE void Clear() {
    for (auto& row : at) row[0] = row[1] = hn::Zero(Lane());
  }
};

// sum += squared distances over the frequencies [first, last). A row holds all
// cosines, then, `circles` floats on, all sines; keys lie frequency by
// frequency, `width` floats apart, in the same order.
HWY_INLINE void AddDistances(const float* HWY_RESTRICT rows, int64_t circles,
                             const float* HWY_RESTRICT key, int64_t width,
                             int64_t first, int64_t last, Block& sum) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  Block run;
  run.Clear();
  for (int64_t f = first; f < last; ++f) {
    for (const int64_t channel : {f, f + circles}) {
      const auto k0 = hn::LoadU(d, key + channel * width);
      const auto k1 = hn::LoadU(d, key + channel * width + n);
      for (int r = 0; r < kRowGroup; ++r) {
        const auto q = hn::Set(d, rows[2 * r * circles + channel]);
        const auto d0 = hn::Sub(q, k0), d1 = hn::Sub(q, k1);
        run.at[r][0] = hn::MulAdd(d0, d0, run.at[r][0]);
        run.at[r][1] = hn::MulAdd(d1, d1, run.at[r][1]);
      }
    }
  }
  for (int r = 0; r < kRowGroup; ++r) {
    for (int v = 0; v < 2; ++v) {
      sum.at[r][v] = hn::Add(sum.at[r][v], run.at[r][v]);
    }
  }
}

// high + low += sum (Dekker: nearly exact also where sum is the larger one).
HWY_INLINE void AddExactly(const Block& sum, Block& high, Block& low) {
  for (int r = 0; r < kRowGroup; ++r) {
    for (int v = 0; v < 2; ++v) {
      const auto total = hn::Add(high.at[r][v], sum.at[r][v]);
      const auto lost = hn::Sub(sum.at[r][v], hn::Sub(total, high.at[r][v]));
      high.at[r][v] = total;
      low.at[r][v] = hn::Add(low.at[r][v], lost);
    }
  }
}

// plane[r, c] = |rows[r] - key[., c]|^2 for kRowGroup rows and the columns that
// cover [begin, end), in steps of 2 vectors. `width`, a multiple of 32, is also
// the plane's stride; rows beyond the last may be garbage.
void SquaredDistances(const float* rows, const float* key, int64_t circles,
                      int64_t width, int64_t begin, int64_t end,
                      float* HWY_RESTRICT plane) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  for (int64_t c = begin / (2 * n) * (2 * n); c < end; c += 2 * n) {
    Block high, low;
    high.Clear();
    low.Clear();
    for (int64_t group = 0; group < circles; group += kGroup) {
      Block sum;
      sum.Clear();
      const int64_t last = std::min(group + kGroup, circles);
      for (int64_t run = group; run < last; run += kRun) {
        AddDistances(rows, circles, key + c, width, run,
                     std::min(run + kRun, last), sum);
      }
      AddExactly(sum, high, low);
    }
    for (int r = 0; r < kRowGroup; ++r) {
      for (int v = 0; v < 2; ++v) {
        hn::StoreU(hn::Add(high.at[r][v], low.at[r][v]), d,
                   plane + r * width + c + v * n);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace attnd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd {
namespace {

HWY_EXPORT(SquaredDistances);

constexpr int64_t kRowGroup = 4;  // as above

class Sandwich : public LagTerm {
 public:
  Sandwich(const SandwichTerm& term, int query_heads, const TickRatio& ratio);

  double Exact(int head, const LagPoint& point) const override;
  double Supremum(int, double, double) const override { return 0; }
  void Prepare(const LagRectangle& tile, LagScratch* scratch,
               LagPart* part) const override;
  void Add(int head, const LagRectangle& tile, const LagPart& part,
           int64_t stride, float* logits) const override {
    AddPlane(tile, part, -0.5 * factors_[head], stride, logits);
  }

 private:
  int64_t circles() const { return static_cast<int64_t>(frequencies_.size()); }
  uint64_t Phase(int64_t circle, const ItemGeometry& item, bool query,
                 int64_t i) const;
  void RowTable(const LagRectangle& tile, LagScratch* scratch) const;
  void KeyTable(const LagRectangle& tile, LagScratch* scratch) const;

  // Slow ones first: their squares are small.
  std::vector<TurnFrequency> frequencies_;
  std::vector<double> factors_;  // 1 / (8h/H)
};

Sandwich::Sandwich(const SandwichTerm& term, int query_heads,
                   const TickRatio& ratio) {
  for (int i = term.dim / 2; i >= 1; --i) {
    frequencies_.push_back(
        MakeTurnFrequency(std::pow(term.base, -2.0 * i / term.dim), ratio));
  }
  for (int head = 0; head < query_heads; ++head) {
    factors_.push_back(query_heads / (8.0 * (head + 1)));
  }
}

double Angle(uint64_t phase) {
  return static_cast<double>(static_cast<int64_t>(phase)) *
         (2 * M_PI * 0x1p-64);
}

double Sandwich::Exact(int head, const LagPoint& point) const {
  double sum = 0;
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    const uint64_t phase = point.exact ? PhaseWord(frequencies_[i], point.ticks)
                                       : PhaseWord(frequencies_[i], point.real);
    const double sine = std::sin(Angle(phase) / 2);
    sum += sine * sine;
  }
  return -2 * factors_[head] * sum;
}

uint64_t Sandwich::Phase(int64_t circle, const ItemGeometry& item, bool query,
                         int64_t i) const {
  const TurnFrequency& f = frequencies_[circle];
  if (item.exact) {
    // PhaseWord of a time that is never negative.
    const auto ticks =
        static_cast<uint64_t>(query ? item.query_ticks[i] : item.key_ticks[i]);
    return f.hi * ticks +
           static_cast<uint64_t>(
               (static_cast<unsigned __int128>(f.lo) * ticks) >> 64);
  }
  return PhaseWord(
      f, (query ? item.query_real[i] : item.key_real[i]) - item.real_reference);
}

// The rows' times as they are, in bits, what phases count from, and whose table
// it is.
std::vector<int64_t> TimesOfRows(const LagRectangle& tile, const void* term) {
  const ItemGeometry& item = *tile.item;
  std::vector<int64_t> stamp(tile.rows + 2);
  stamp.back() = static_cast<int64_t>(reinterpret_cast<intptr_t>(term));
  if (item.exact) {
    std::copy_n(item.query_ticks.begin() + tile.first, tile.rows,
                stamp.begin() + 1);
  } else {
    std::memcpy(&stamp[0], &item.real_reference, sizeof(double));
    std::memcpy(&stamp[1], item.query_real.data() + tile.first,
                tile.rows * sizeof(double));
  }
  return stamp;
}

// Row by row: all cosines, then all sines. A few rows of zeros follow.
void Sandwich::RowTable(const LagRectangle& tile, LagScratch* scratch) const {
  const int64_t width = 2 * circles(), padded = tile.rows + kRowGroup - 1;
  std::vector<int64_t> stamp = TimesOfRows(tile, this);
  if (stamp == scratch->row_stamp) return;
  scratch->row_stamp = std::move(stamp);
  float* table = scratch->row_table.Reserve(padded * width);
  scratch->phases.resize(circles());
  for (int64_t r = 0; r < tile.rows; ++r) {
    for (int64_t f = 0; f < circles(); ++f) {
      scratch->phases[f] = Phase(f, *tile.item, true, tile.first + r);
    }
    float* row = table + r * width;
    CirclePoints(scratch->phases.data(), circles(), row, row + circles());
  }
  std::fill(table + tile.rows * width, table + padded * width, 0.0f);
}

// Circle by circle: the cosines of all keys; after all circles the sines.
// Columns past the last key are computed and never read.
void Sandwich::KeyTable(const LagRectangle& tile, LagScratch* scratch) const {
  const int64_t width = PlaneStride(tile.keys), keys = tile.ValidKeys();
  float* table = scratch->key_table.Reserve(width * 2 * circles());
  scratch->phases.assign(width, 0);
  for (int64_t f = 0; f < circles(); ++f) {
    for (int64_t j = 0; j < keys; ++j) {
      scratch->phases[j] = Phase(f, *tile.item, false, tile.key + j);
    }
    CirclePoints(scratch->phases.data(), width, table + f * width,
                 table + (f + circles()) * width);
  }
}

void Sandwich::Prepare(const LagRectangle& tile, LagScratch* scratch,
                       LagPart* part) const {
  RowTable(tile, scratch);
  KeyTable(tile, scratch);
  const int64_t width = PlaneStride(tile.keys);
  const int64_t groups = (tile.rows + kRowGroup - 1) / kRowGroup;
  float* plane = part->plane.Reserve(groups * kRowGroup * width);
  for (int64_t r = 0; r < tile.rows; r += kRowGroup) {
    int64_t begin = tile.keys, end = 0;
    for (int64_t s = r; s < std::min(r + kRowGroup, tile.rows); ++s) {
      begin = std::min(begin, tile.Begin(s));
      end = std::max(end, tile.End(s));
    }
    HWY_DYNAMIC_DISPATCH(SquaredDistances)
    (scratch->row_table.data() + r * 2 * circles(), scratch->key_table.data(),
     circles(), width, begin, end, plane + r * width);
  }
}

}  // namespace

std::unique_ptr<LagTerm> MakeSandwich(const SandwichTerm& term, int query_heads,
                                      const TickRatio& ratio) {
  return std::make_unique<Sandwich>(term, query_heads, ratio);
}

}  // namespace attnd
#endif  // HWY_ONCE
