#include "kernels/sandwich.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/types/span.h"
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
// Channels summed before the sum meets larger ones: keeps rounding small.
constexpr int64_t kChannelBlock = 32;

// sum[r][v] = squared distances over channels [first, last) of kRowGroup rows
// and 2 vectors of keys. Keys lie channel by channel, `keys` floats apart.
HWY_INLINE void Distances(const float* HWY_RESTRICT rows, int64_t row_stride,
                          const float* HWY_RESTRICT key, int64_t key_stride,
                          int64_t first, int64_t last,
                          Vector (&sum)[kRowGroup][2]) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  for (auto& row : sum) row[0] = row[1] = hn::Zero(d);
  for (int64_t channel = first; channel < last; ++channel) {
    const auto k0 = hn::LoadU(d, key + channel * key_stride);
    const auto k1 = hn::LoadU(d, key + channel * key_stride + n);
    for (int r = 0; r < kRowGroup; ++r) {
      const auto q = hn::Set(d, rows[r * row_stride + channel]);
      const auto d0 = hn::Sub(q, k0), d1 = hn::Sub(q, k1);
      sum[r][0] = hn::MulAdd(d0, d0, sum[r][0]);
      sum[r][1] = hn::MulAdd(d1, d1, sum[r][1]);
    }
  }
}

// plane[r, c] = |rows[r] - key[., c]|^2 for kRowGroup rows and the columns that
// cover [begin, end), in steps of 2 vectors. Strides of key and plane are
// `width`, a multiple of 32; rows beyond the last may be garbage.
void SquaredDistances(const float* HWY_RESTRICT rows,
                      const float* HWY_RESTRICT key, int64_t channels,
                      int64_t width, int64_t begin, int64_t end,
                      float* HWY_RESTRICT plane) {
  const Lane d;
  const int64_t n = hn::Lanes(d);
  for (int64_t c = begin / (2 * n) * (2 * n); c < end; c += 2 * n) {
    Vector total[kRowGroup][2];
    for (auto& row : total) row[0] = row[1] = hn::Zero(d);
    for (int64_t first = 0; first < channels; first += kChannelBlock) {
      Vector sum[kRowGroup][2];
      Distances(rows, channels, key + c, width, first,
                std::min(first + kChannelBlock, channels), sum);
      for (int r = 0; r < kRowGroup; ++r) {
        total[r][0] = hn::Add(total[r][0], sum[r][0]);
        total[r][1] = hn::Add(total[r][1], sum[r][1]);
      }
    }
    for (int r = 0; r < kRowGroup; ++r) {
      hn::StoreU(total[r][0], d, plane + r * width + c);
      hn::StoreU(total[r][1], d, plane + r * width + c + n);
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

constexpr int64_t kRowGroup = 4;

// Tables are padded so that whole groups of rows and of keys can be read.
int64_t PaddedCount(int64_t count, int64_t step) {
  return (count + step - 1) / step * step;
}

class Sandwich : public LagTerm {
 public:
  Sandwich(const SandwichTerm& term, int query_heads, const TickRatio& ratio);

  double Exact(int head, const LagPoint& point) const override;
  double Supremum(int, double, double) const override { return 0; }
  void StartRows(const LagTile& tile, LagPart* part) const override;
  void Prepare(const LagTile& tile, LagPart* part) const override;
  void Add(int head, const LagTile& tile, const LagPart& part, int64_t stride,
           float* logits) const override {
    AddPlane(tile, part, -0.5 * factors_[head], stride, logits);
  }

 private:
  int64_t channels() const {
    return 2 * static_cast<int64_t>(frequencies_.size());
  }

  std::vector<TurnFrequency> frequencies_;
  std::vector<double> factors_;  // 1 / (8h/H)
};

Sandwich::Sandwich(const SandwichTerm& term, int query_heads,
                   const TickRatio& ratio) {
  for (int i = 1; i <= term.dim / 2; ++i) {
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
  for (size_t i = frequencies_.size(); i-- > 0;) {
    const uint64_t phase = point.exact ? PhaseWord(frequencies_[i], point.ticks)
                                       : PhaseWord(frequencies_[i], point.real);
    const double sine = std::sin(Angle(phase) / 2);
    sum += sine * sine;
  }
  return -2 * factors_[head] * sum;
}

// cos and sin of all frequencies at the times of [first, first + count), one
// frequency after the other: element (time j, channel c) at j * time_stride + c
// * channel_stride.
void PointsOnCircles(absl::Span<const TurnFrequency> frequencies,
                     const ItemGeometry& item, bool queries, int64_t first,
                     int64_t count, int64_t time_stride, int64_t channel_stride,
                     float* table) {
  const std::vector<int64_t>& ticks =
      queries ? item.query_ticks : item.key_ticks;
  const std::vector<double>& real = queries ? item.query_real : item.key_real;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    float* cosine = table + 2 * i * channel_stride;
    float* sine = cosine + channel_stride;
    for (int64_t j = 0; j < count; ++j) {
      const double angle =
          Angle(item.exact ? PhaseWord(frequencies[i], ticks[first + j])
                           : PhaseWord(frequencies[i],
                                       real[first + j] - item.real_reference));
      cosine[j * time_stride] = static_cast<float>(std::cos(angle));
      sine[j * time_stride] = static_cast<float>(std::sin(angle));
    }
  }
}

void Sandwich::StartRows(const LagTile& tile, LagPart* part) const {
  const int64_t padded = tile.all_rows + kRowGroup;
  float* table = part->row_table.Reserve(padded * channels());
  PointsOnCircles(frequencies_, *tile.item, true, tile.start, tile.all_rows,
                  channels(), 1, table);
  std::fill(table + tile.all_rows * channels(), table + padded * channels(),
            0.0f);
}

void Sandwich::Prepare(const LagTile& tile, LagPart* part) const {
  const int64_t width = PlaneStride(tile.keys);
  const int64_t keys = std::min(tile.keys, tile.item->key_rows - tile.key);
  float* key = part->key_table.Reserve(width * channels());
  std::fill(key, key + width * channels(), 0.0f);
  PointsOnCircles(frequencies_, *tile.item, false, tile.key, keys, 1, width,
                  key);
  float* plane = part->plane.Reserve(PaddedCount(tile.rows, kRowGroup) * width);
  for (int64_t r = 0; r < tile.rows; r += kRowGroup) {
    int64_t begin = tile.keys, end = 0;
    for (int64_t s = r; s < std::min(r + kRowGroup, tile.rows); ++s) {
      begin = std::min(begin, tile.Begin(s));
      end = std::max(end, tile.End(s));
    }
    HWY_DYNAMIC_DISPATCH(SquaredDistances)
    (part->row_table.data() + (tile.first - tile.start + r) * channels(), key,
     channels(), width, begin, end, plane + r * width);
  }
}

}  // namespace

std::unique_ptr<LagTerm> MakeSandwich(const SandwichTerm& term, int query_heads,
                                      const TickRatio& ratio) {
  return std::make_unique<Sandwich>(term, query_heads, ratio);
}

}  // namespace attnd
#endif  // HWY_ONCE
