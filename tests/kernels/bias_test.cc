#include "kernels/bias.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Sorted times and random intervals, as MakeGeometry would give.
ItemGeometry RandomItem(bool exact, uint64_t seed, int64_t queries,
                        int64_t keys, bool causal) {
  testing::Random random(seed);
  std::vector<int64_t> query_ticks(queries), key_ticks(keys);
  const int64_t span = int64_t{1} << random.Integer(2, 61);
  for (int64_t& t : query_ticks) t = random.Integer(0, span);
  for (int64_t& t : key_ticks) t = random.Integer(0, span);
  std::vector<double> query_real(query_ticks.begin(), query_ticks.end());
  std::vector<double> key_real(key_ticks.begin(), key_ticks.end());
  const auto axis = [exact](const std::vector<int64_t>& ticks,
                            const std::vector<double>& real) {
    const char* bytes = exact ? reinterpret_cast<const char*>(ticks.data())
                              : reinterpret_cast<const char*>(real.data());
    const auto rows = static_cast<int64_t>(ticks.size());
    return *TimeAxis::Make(
        exact ? TimeAxis::Kind::kTicks : TimeAxis::Kind::kReal,
        absl::MakeConstSpan(bytes, 8 * rows), 1, rows, /*per_item=*/false);
  };
  MaskSpec mask;
  mask.causal = causal;
  return *MakeGeometry(axis(query_ticks, query_real), axis(key_ticks, key_real),
                       mask, 0, queries, keys);
}

double Nearest(const ItemGeometry& item, int64_t i) {
  double nearest = INFINITY;
  for (int64_t j = item.begin[i]; j < item.end[i]; ++j) {
    nearest = std::min(nearest, std::abs(item.Lag(i, j)));
  }
  return item.begin[i] < item.end[i] ? nearest : 0;
}

// Error of a bias `expected` that was taken relative to a reference and rounded
// to f32.
double Bound(double expected) { return 3e-7 * std::abs(expected) + 1e-30; }

TEST(LinearBias, ReferenceIsTheBiasOfTheNearestVisibleKey) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const ItemGeometry item =
        RandomItem(seed % 2 == 0, seed, 9, 12, seed % 4 < 2);
    const LinearBias bias{&item, -0.25};
    for (int64_t i = 0; i < 9; ++i) {
      EXPECT_EQ(bias.Reference(i), -0.25 * Nearest(item, i)) << seed;
    }
  }
}

TEST(LinearBias, AddToRowAddsWhatIsLeftPastTheReference) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const ItemGeometry item =
        RandomItem(seed % 2 == 0, seed, 7, 40, seed % 4 < 2);
    const double per_tick = -1e-3;
    const LinearBias bias{&item, per_tick};
    for (int64_t i = 0; i < 7; ++i) {
      std::vector<float> row(40, 0);
      const int64_t begin = item.begin[i], end = item.end[i];
      bias.AddToRow(i, 0, begin, end, row.data());
      for (int64_t j = 0; j < 40; ++j) {
        if (j < begin || j >= end) {
          EXPECT_EQ(row[j], 0);
          continue;
        }
        const double expected =
            per_tick * (std::abs(item.Lag(i, j)) - Nearest(item, i));
        EXPECT_NEAR(row[j], expected, Bound(expected)) << seed << " " << j;
        EXPECT_LE(row[j], 0);
      }
    }
  }
}

TEST(LinearBias, SplitIsTheSameBiasInTwoPartsThatDoNotCancel) {
  int splits = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const ItemGeometry item =
        RandomItem(seed % 2 == 0, seed, 6, 20, seed % 4 < 2);
    const double per_tick = -1e-3;
    const LinearBias bias{&item, per_tick};
    for (int64_t first = 0; first < 20; first += 5) {
      const int64_t last = first + 5;
      for (int64_t i = 0; i < 6; i += 2) {
        std::vector<float> column(64), row(2);
        if (!bias.Split(i, 2, first, last, column.data(), row.data())) continue;
        ++splits;
        for (int64_t r = 0; r < 2; ++r) {
          for (int64_t j = first; j < last; ++j) {
            if (j < item.begin[i + r] || j >= item.end[i + r]) continue;
            const double expected = per_tick * (std::abs(item.Lag(i + r, j)) -
                                                Nearest(item, i + r));
            const double got = static_cast<double>(column[j - first]) + row[r];
            EXPECT_NEAR(got, expected, Bound(expected)) << seed;
            EXPECT_LE(column[j - first], 0);
            EXPECT_LE(row[r], 0) << seed;
          }
        }
      }
    }
  }
  EXPECT_GT(splits, 100);
}

TEST(LinearBias, SplitsOnlyWhereAllKeysLieOnOneSide) {
  ItemGeometry item;
  item.query_ticks = {10, 20};
  item.key_ticks = {5, 15, 25};
  item.query_rows = 2;
  item.key_rows = 3;
  item.begin = {0, 0};
  item.end = {3, 3};
  const LinearBias bias{&item, -1};
  float column[64], row[2];
  EXPECT_TRUE(bias.Split(0, 2, 0, 1, column, row));
  EXPECT_FALSE(bias.Split(0, 2, 0, 2, column, row));
  EXPECT_FALSE(bias.Split(0, 2, 1, 2, column, row));
  EXPECT_TRUE(bias.Split(0, 2, 2, 3, column, row));
  EXPECT_TRUE(bias.Split(1, 1, 0, 2, column, row));
}

TEST(TensorBias, BroadcastsEveryAxis) {
  ItemGeometry item;
  item.key_rows = 3;
  for (int ones = 0; ones < 16; ++ones) {
    const Shape4 s{ones & 1 ? 1 : 2, ones & 2 ? 1 : 2, ones & 4 ? 1 : 2,
                   ones & 8 ? 1 : 3};
    std::vector<float> values(s.batch * s.heads * s.rows * s.cols);
    for (size_t e = 0; e < values.size(); ++e) values[e] = e + 1;
    const TensorRef bias = *TensorRef::Make(
        absl::MakeConstSpan(reinterpret_cast<const char*>(values.data()),
                            4 * values.size()),
        DType::kF32, Layout::kBHLD, s);
    std::vector<float> row(3, 100);
    AddTensorBias(bias, item, 1, 1, 1, 0, 1, 3, row.data());
    EXPECT_EQ(row[0], 100);
    for (int64_t c = 1; c < 3; ++c) {
      const int64_t element =
          (((s.batch - 1) * s.heads + s.heads - 1) * s.rows + s.rows - 1) *
              s.cols +
          (s.cols == 1 ? 0 : c);
      EXPECT_EQ(row[c], 100 + values[element]) << ones;
    }
  }
}

TEST(TensorBias, MinusInfinityHidesEvenANaN) {
  ItemGeometry item;
  item.key_rows = 1;
  const float hides = -kInfinity;
  const TensorRef bias = *TensorRef::Make(
      absl::MakeConstSpan(reinterpret_cast<const char*>(&hides), 4),
      DType::kF32, Layout::kBHLD, {1, 1, 1, 1});
  for (float logit :
       {0.0f, kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    AddTensorBias(bias, item, 0, 0, 0, 0, 0, 1, &logit);
    EXPECT_EQ(logit, -kInfinity);
  }
}

}  // namespace
}  // namespace attnd
