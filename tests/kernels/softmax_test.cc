#include "kernels/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/float_mode.h"
#include "kernels/tensor.h"
#include "tests/kernels/each_target.h"
#include "tests/kernels/problem_builder.h"

namespace attnd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// State of some rows and the tile under work.
class Rows {
 public:
  explicit Rows(int rows)
      : rows_(rows), max(rows, -kInfinity), rescale(rows, 99) {
    float* sums = sums_.Reserve(rows * kSumLanes);
    std::fill(sums, sums + rows * kSumLanes, 0.0f);
  }

  // Runs one tile of `stride` columns; `logits` become what they are replaced
  // by.
  bool Update(std::vector<float>& logits, int stride,
              const std::vector<int32_t>& begin = {},
              const std::vector<int32_t>& end = {},
              const std::vector<float>& column_bias = {},
              const std::vector<float>& row_bias = {}) {
    float* tile = tile_.Reserve(static_cast<int64_t>(logits.size()));
    std::copy(logits.begin(), logits.end(), tile);
    const bool rescaled = UpdateSoftmax(
        {.logits = tile,
         .rows = rows_,
         .stride = stride,
         .begin = begin.empty() ? nullptr : begin.data(),
         .end = end.empty() ? nullptr : end.data(),
         .column_bias = column_bias.empty() ? nullptr : column_bias.data(),
         .row_bias = row_bias.empty() ? nullptr : row_bias.data(),
         .max = max.data(),
         .sums = sums_.data(),
         .rescale = rescale.data()});
    std::copy(tile, tile + logits.size(), logits.begin());
    return rescaled;
  }

  float Sum(int row) {
    float unused;
    return NormaliseRow(&unused, 0, sums_.data() + row * kSumLanes, &unused);
  }
  const float* sums(int row) { return sums_.data() + row * kSumLanes; }

 private:
  int rows_;
  AlignedBuffer tile_, sums_;

 public:
  std::vector<float> max, rescale;
};

void CheckExp() {
  // Arguments between 0 and -100, relative to a maximum of 0.
  constexpr int kStride = 1600;
  Rows rows(1);
  std::vector<float> logits(kStride);
  for (int c = 0; c < kStride; ++c) logits[c] = -c / 16.0f;
  const std::vector<float> arguments = logits;
  rows.Update(logits, kStride);
  for (int c = 0; c < kStride; ++c) {
    const double exact = std::exp(static_cast<double>(arguments[c]));
    if (arguments[c] >= -87.3f) {
      EXPECT_LE(std::abs(logits[c] / exact - 1), kExpRelativeError)
          << arguments[c];
    } else if (arguments[c] < -88) {
      EXPECT_EQ(logits[c], 0) << arguments[c];
    }
    EXPECT_TRUE(logits[c] == 0 ||
                logits[c] >= std::numeric_limits<float>::min());
  }
}

TEST(Softmax, ExpIsWithinItsErrorAndFlushesWhatIsSubnormal) {
  testing::OnEachTarget([] {
    CheckExp();
    const FlushDenormals flush;
    CheckExp();
  });
}

TEST(Softmax, MaximaMayRiseByLessThanTheStepWithoutARescale) {
  Rows rows(1);
  std::vector<float> low(16, 0.0f), high(16, kRescaleStep);
  EXPECT_FALSE(rows.Update(low, 16));
  EXPECT_FALSE(rows.Update(high, 16));
  EXPECT_EQ(rows.rescale[0], 1);
  EXPECT_EQ(rows.max[0], 0);
  EXPECT_NEAR(high[0] / std::exp(double{kRescaleStep}), 1, kExpRelativeError);
  EXPECT_NEAR(rows.Sum(0) / (16 + 16 * std::exp(double{kRescaleStep})), 1,
              1e-6);
}

TEST(Softmax, ALargerRiseRescalesWhatCameBefore) {
  Rows rows(2);
  std::vector<float> first(32, 1.0f), second(32, 1.0f);
  std::fill(second.begin() + 16, second.end(), 11.0f);
  EXPECT_FALSE(rows.Update(first, 16));
  EXPECT_TRUE(rows.Update(second, 16));
  EXPECT_EQ(rows.rescale[0], 1);
  EXPECT_NEAR(rows.rescale[1] / std::exp(-10.0), 1, 1e-6);
  EXPECT_EQ(rows.max[1], 11);
  EXPECT_NEAR(rows.Sum(1) / (16 + 16 * std::exp(-10.0)), 1, 1e-6);
}

TEST(Softmax, HiddenColumnsBecomeExactlyZeroWhateverTheyHold) {
  for (int begin = 0; begin <= 48; begin += 5) {
    for (int end = begin; end <= 48; end += 3) {
      Rows rows(1);
      std::vector<float> logits(48, kNaN);
      for (int c = begin; c < end; ++c) logits[c] = c;
      rows.Update(logits, 48, {begin}, {end});
      double sum = 0;
      for (int c = begin; c < end; ++c) sum += std::exp(double(c - end + 1));
      for (int c = 0; c < 48; ++c) {
        if (c >= begin && c < end) continue;
        EXPECT_EQ(logits[c], 0) << begin << " " << c;
      }
      EXPECT_NEAR(rows.Sum(0), sum, 1e-5 * sum) << begin << " to " << end;
    }
  }
}

TEST(Softmax, ARowThatSeesNothingKeepsItsState) {
  Rows rows(2);
  std::vector<float> logits(32, 5.0f);
  rows.Update(logits, 16, {0, 7}, {16, 7});
  EXPECT_EQ(rows.max[1], -kInfinity);
  EXPECT_EQ(rows.rescale[1], 1);
  EXPECT_EQ(rows.Sum(1), 0);
  const float max = rows.max[0], sum = rows.Sum(0);
  std::vector<float> none(32, 90.0f);
  EXPECT_FALSE(rows.Update(none, 16, {16, 0}, {16, 0}));
  EXPECT_EQ(rows.max[0], max);
  EXPECT_EQ(rows.Sum(0), sum);
}

TEST(Softmax, LogitsOfMinusInfinityWeighNothing) {
  Rows rows(1);
  std::vector<float> all(16, -kInfinity), some(16, -kInfinity);
  some[3] = -2;
  rows.Update(all, 16);
  for (float p : all) EXPECT_EQ(p, 0);
  EXPECT_EQ(rows.Sum(0), 0);
  rows.Update(some, 16);
  EXPECT_EQ(rows.max[0], -2);
  EXPECT_EQ(rows.Sum(0), some[3]);
  EXPECT_NEAR(some[3], 1, 1e-6);
}

TEST(Softmax, ANaNLogitMakesItsRowAloneNaN) {
  for (int at : {0, 5, 15, 16, 31}) {
    Rows rows(2);
    std::vector<float> logits(64, 1.0f);
    logits[at] = kNaN;
    rows.Update(logits, 32);
    EXPECT_TRUE(std::isnan(rows.Sum(0))) << at;
    EXPECT_NEAR(rows.Sum(1), 32, 1e-4);
  }
}

TEST(Softmax, BiasesAreAddedOnTheFly) {
  testing::Random random(1);
  std::vector<float> plain = random.Normals(3 * 32), biased = plain;
  const std::vector<float> columns = random.Normals(32), by_row = {0, -1, 2};
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 32; ++c) plain[r * 32 + c] += columns[c] + by_row[r];
  }
  Rows expected(3), got(3);
  const std::vector<int32_t> begin = {0, 3, 17}, end = {32, 30, 18};
  expected.Update(plain, 32, begin, end);
  got.Update(biased, 32, begin, end, columns, by_row);
  for (int r = 0; r < 3; ++r) {
    EXPECT_NEAR(got.max[r], expected.max[r], 1e-6);
    EXPECT_NEAR(got.Sum(r), expected.Sum(r), 1e-5);
  }
  for (size_t e = 0; e < plain.size(); ++e) {
    EXPECT_NEAR(biased[e], plain[e], 2e-6);
  }
}

TEST(Softmax, ManyTilesGiveTheSoftmaxOfTheirUnion) {
  testing::Random random(2);
  for (int trial = 0; trial < 50; ++trial) {
    Rows rows(4);
    double sums[4] = {}, maxima[4];
    std::fill(maxima, maxima + 4, -INFINITY);
    std::vector<std::vector<double>> logits(4);
    for (int t = 0; t < 6; ++t) {
      std::vector<float> tile = random.Normals(4 * 64, 10);
      for (int e = 0; e < 4 * 64; ++e) logits[e / 64].push_back(tile[e]);
      rows.Update(tile, 64);
    }
    for (int r = 0; r < 4; ++r) {
      for (double x : logits[r]) sums[r] += std::exp(x - rows.max[r]);
      EXPECT_NEAR(rows.Sum(r) / sums[r], 1, 2e-6) << trial;
    }
  }
}

// All are rounded the same way when added one by one.
TEST(Softmax, EqualSmallTermsBesideALargeOneAreNotLost) {
  constexpr int kStride = 64, kTiles = 128;
  for (float small = -6; small > -17; small -= 0.37f) {
    Rows rows(1);
    for (int t = 0; t < kTiles; ++t) {
      std::vector<float> tile(kStride, small);
      if (t == 0) tile[0] = 0;
      rows.Update(tile, kStride);
    }
    const double rest = (kTiles * kStride - 1) * std::exp(double{small});
    EXPECT_NEAR(rows.Sum(0) / (1 + rest), 1,
                1e-6 + kExpRelativeError * rest / (1 + rest))
        << small;
  }
}

TEST(ScaleRows, MultipliesEachRowByItsFactor) {
  for (int64_t dim : {1, 15, 16, 33}) {
    std::vector<float> values(3 * dim, 2.0f);
    const float factors[3] = {1, 0.5f, 0};
    ScaleRows(values.data(), 3, dim, factors);
    for (int64_t e = 0; e < 3 * dim; ++e) {
      EXPECT_EQ(values[e], 2 * factors[e / dim]);
    }
  }
}

void CheckSumOfLanes() {
  AlignedBuffer sums;
  for (int64_t dim : {1, 15, 16, 33}) {
    std::fill_n(sums.Reserve(kSumLanes), kSumLanes, 4.0f / kSumLanes);
    const std::vector<float> values(dim, 6.0f);
    std::vector<float> out(dim);
    EXPECT_EQ(NormaliseRow(values.data(), dim, sums.data(), out.data()), 4);
    for (float v : out) EXPECT_EQ(v, 1.5f);
  }
}

TEST(NormaliseRow, DividesByTheSumOfTheLanes) {
  testing::OnEachTarget(CheckSumOfLanes);
}

TEST(NormaliseRow, OfNothingIsZero) {
  AlignedBuffer sums;
  std::fill_n(sums.Reserve(kSumLanes), kSumLanes, 0.0f);
  const std::vector<float> values(3, kNaN);
  std::vector<float> out(3, 7.0f);
  EXPECT_EQ(NormaliseRow(values.data(), 3, sums.data(), out.data()), 0);
  for (float v : out) EXPECT_EQ(v, 0);
}

TEST(WeightsFromLogits, AreTheSharesOfTheSum) {
  for (int64_t count : {1, 15, 16, 17, 40}) {
    testing::Random random(count);
    const std::vector<float> logits = random.Normals(count, 3);
    double sum = 0;
    for (float l : logits) sum += std::exp(l - 1.0);
    std::vector<float> weights(count + 1, 7);
    WeightsFromLogits(logits.data(), count, 1, static_cast<float>(sum),
                      weights.data());
    for (int64_t c = 0; c < count; ++c) {
      EXPECT_NEAR(weights[c], std::exp(logits[c] - 1.0) / sum, 1e-6);
    }
    EXPECT_EQ(weights[count], 7) << "beyond its end";
  }
}

TEST(WeightsFromLogits, HiddenKeysWeighNothingInAnyRow) {
  for (float max : {2.0f, -kInfinity, kNaN}) {
    for (float sum : {3.0f, 0.0f, kNaN}) {
      float weights[2] = {-kInfinity, -kInfinity};
      WeightsFromLogits(weights, 2, max, sum, weights);
      EXPECT_EQ(weights[0], 0);
      EXPECT_EQ(weights[1], 0);
    }
  }
}

TEST(VectorTarget, HasAName) {
  EXPECT_FALSE(std::string(VectorTarget()).empty());
}

}  // namespace
}  // namespace attnd
