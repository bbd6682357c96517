#include "kernels/sandwich.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "kernels/circle_distances.h"
#include "kernels/circle_points.h"
#include "kernels/lag_plane.h"

namespace attnd {
namespace {

// Tables of keys that are kept: 128 blocks of 32 keys serve all queries of an
// item of 4096 keys.
constexpr size_t kKeptBlocks = 128;

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
  const float* RowTable(const LagRectangle& tile, LagScratch* scratch) const;
  const float* KeyTable(const ItemGeometry& item, int64_t key, int64_t count,
                        LagScratch* scratch) const;

  // Slow ones first: their squares are small.
  std::vector<TurnFrequency> frequencies_;
  std::vector<double> factors_;  // 1 / (8h/H)
  double near_lag_;              // ticks, see NearLag
};

// Largest lag, in units, at which the squared distances, of which each circle
// has (w lag)^2 at most and never more than 4, are surely less than the number
// of circles. Expects slow frequencies first.
double NearLag(const std::vector<double>& omegas) {
  std::vector<double> squares = {0};  // of the slow ones
  for (const double w : omegas) squares.push_back(squares.back() + w * w);
  const size_t circles = omegas.size();
  double lag = 0;
  for (size_t slow = circles; slow > 0; --slow) {
    const auto full = static_cast<double>(circles - slow);
    const double left = static_cast<double>(circles) - 4 * full;
    lag = std::sqrt(std::max(0.0, left) / squares[slow]);
    if (omegas[slow - 1] * lag <= 2) break;
  }
  return 0.999 * lag;
}

Sandwich::Sandwich(const SandwichTerm& term, int query_heads,
                   const TickRatio& ratio) {
  std::vector<double> omegas;
  for (int i = term.dim / 2; i >= 1; --i) {
    omegas.push_back(std::pow(term.base, -2.0 * i / term.dim));
    frequencies_.push_back(MakeTurnFrequency(omegas.back(), ratio));
  }
  near_lag_ = NearLag(omegas) / ratio.units_per_tick();
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

// Times [first, first + count) as they are, in bits, what phases count from,
// and whose table it is.
void StampTimes(const ItemGeometry& item, bool queries, int64_t first,
                int64_t count, const void* term, std::vector<int64_t>* stamp) {
  stamp->resize(count + 2);
  (*stamp)[0] = static_cast<int64_t>(reinterpret_cast<intptr_t>(term));
  (*stamp)[1] = 0;
  int64_t* times = stamp->data() + 2;
  if (item.exact) {
    const auto& from = queries ? item.query_ticks : item.key_ticks;
    std::copy_n(from.begin() + first, count, times);
  } else {
    const auto& from = queries ? item.query_real : item.key_real;
    std::memcpy(&(*stamp)[1], &item.real_reference, sizeof(double));
    std::memcpy(times, from.data() + first, count * sizeof(double));
  }
}

// Like blocks of keys, but of kCircleRows rows: those past the last are zeros.
const float* Sandwich::RowTable(const LagRectangle& tile,
                                LagScratch* scratch) const {
  std::vector<int64_t> stamp;
  StampTimes(*tile.item, true, tile.first, tile.rows, this, &stamp);
  LagTable& rows = scratch->rows;
  if (stamp == rows.stamp) return rows.values.data();
  rows.stamp = std::move(stamp);
  const int64_t width = 2 * circles();
  const int64_t padded =
      (tile.rows + kCircleRows - 1) / kCircleRows * kCircleRows;
  float* table = rows.values.Reserve(padded * width);
  std::fill_n(table, padded * width, 0.0f);
  scratch->phases.resize(circles());
  std::vector<float> points(width);
  for (int64_t r = 0; r < tile.rows; ++r) {
    for (int64_t f = 0; f < circles(); ++f) {
      scratch->phases[f] = Phase(f, *tile.item, true, tile.first + r);
    }
    CirclePoints(scratch->phases.data(), circles(), points.data(),
                 points.data() + circles());
    float* row =
        table + r / kCircleRows * kCircleRows * width + r % kCircleRows;
    for (int64_t i = 0; i < width; ++i) row[i * kCircleRows] = points[i];
  }
  return table;
}

// A block of keys, circle by circle: the cosines of its keys; after all circles
// the sines. Columns past the last key are computed and never read.
const float* Sandwich::KeyTable(const ItemGeometry& item, int64_t key,
                                int64_t count, LagScratch* scratch) const {
  std::vector<int64_t> stamp;
  StampTimes(item, false, key, count, this, &stamp);
  for (const LagTable& keys : scratch->keys) {
    if (keys.stamp == stamp) return keys.values.data();
  }
  if (scratch->keys.size() < kKeptBlocks) {
    scratch->oldest_keys = scratch->keys.size();
    scratch->keys.emplace_back();
  }
  LagTable& keys = scratch->keys[scratch->oldest_keys++ % kKeptBlocks];
  keys.stamp = std::move(stamp);
  float* table = keys.values.Reserve(kCircleKeys * 2 * circles());
  scratch->phases.assign(kCircleKeys, 0);
  for (int64_t f = 0; f < circles(); ++f) {
    for (int64_t j = 0; j < count; ++j) {
      scratch->phases[j] = Phase(f, item, false, key + j);
    }
    CirclePoints(scratch->phases.data(), kCircleKeys, table + f * kCircleKeys,
                 table + (f + circles()) * kCircleKeys);
  }
  return table;
}

void Sandwich::Prepare(const LagRectangle& tile, LagScratch* scratch,
                       LagPart* part) const {
  const float* rows = RowTable(tile, scratch);
  const int64_t stride = PlaneStride(tile.keys), valid = tile.ValidKeys();
  const int64_t groups = (tile.rows + kCircleRows - 1) / kCircleRows;
  float* plane = part->plane.Reserve(groups * kCircleRows * stride);
  for (int64_t c = 0; c < valid; c += kCircleKeys) {
    const int64_t count = std::min(kCircleKeys, valid - c);
    const float* key = KeyTable(*tile.item, tile.key + c, count, scratch);
    for (int64_t r = 0; r < tile.rows; r += kCircleRows) {
      int64_t begin = count, end = 0;
      for (int64_t s = r; s < std::min(r + kCircleRows, tile.rows); ++s) {
        begin = std::min(begin, tile.Begin(s) - c);
        end = std::max(end, tile.End(s) - c);
      }
      const LagRectangle pairs = {.item = tile.item,
                                  .first = tile.first + r,
                                  .rows = std::min(kCircleRows, tile.rows - r),
                                  .key = tile.key + c,
                                  .keys = count};
      CircleDistances(rows + r * 2 * circles(), key, circles(),
                      std::max<int64_t>(begin, 0), std::min(end, count), stride,
                      pairs.LagsWithin(0, near_lag_), plane + r * stride + c);
    }
  }
}

}  // namespace

std::unique_ptr<LagTerm> MakeSandwich(const SandwichTerm& term, int query_heads,
                                      const TickRatio& ratio) {
  return std::make_unique<Sandwich>(term, query_heads, ratio);
}

}  // namespace attnd
