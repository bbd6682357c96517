#include "kernels/lag_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/lag_steps.h"
#include "kernels/sandwich.h"
#include "tests/kernels/each_target.h"
#include "tests/kernels/item_builder.h"

namespace attnd {
namespace {

using testing::LogUniformItem;
using testing::Random;
using testing::TickItem;

constexpr TickRatio kNsToSeconds{.tick_ns = 1, .unit_ns = 1000000000};
constexpr TickRatio kSeconds{.tick_ns = 1000000000, .unit_ns = 1000000000};
constexpr int kHeads = 3;

struct Kind {
  std::string name;
  BiasTerm term;
  double error = kLagBiasError;
};

FireTerm RandomFire(Random& random) {
  return {.hidden = 32,
          .w1 = random.Normals(32),
          .b1 = random.Normals(32),
          .w2 = random.Normals(32 * kHeads),
          .b2 = random.Normals(kHeads)};
}

// Every kind, for kHeads heads.
std::vector<Kind> Kinds(Random& random) {
  std::vector<double> knots;
  for (double lag = 0; lag < 2000; lag = lag * 1.3 + 0.1) knots.push_back(lag);
  const auto k = static_cast<int64_t>(knots.size());
  return {
      {"t5", T5Term{.table = random.Normals(32 * kHeads)}},
      {"t5 both ways",
       T5Term{.bidirectional = true, .table = random.Normals(32)}},
      {"hstu", HstuTerm{.table = random.Normals(129 * kHeads)}},
      {"kerple log", KerpleTerm{.r1 = {0.3, 2, 1e3}, .r2 = {0.7, 1e-6, 1e6}}},
      {"kerple log, one r2", KerpleTerm{.r1 = {0.3, 2, 1e3}, .r2 = {0.7}}},
      {"kerple power",
       KerpleTerm{.power = true, .r1 = {0.3, 2, 1}, .r2 = {0.1, 1, 2}}},
      {"kerple power, one r2",
       KerpleTerm{.power = true, .r1 = {1e-9, 2, 1e3}, .r2 = {0.7}}},
      {"sandwich", SandwichTerm{.dim = 128}, kSandwichError},
      {"sandwich of 6", SandwichTerm{.dim = 6}, kSandwichError},
      {"sandwich of 320", SandwichTerm{.dim = 320}, kSandwichError},
      {"sandwich that rises", SandwichTerm{.dim = 40, .base = 0.01},
       kSandwichError},
      {"table",
       LagTableTerm{.lags = knots, .values = random.Normals(kHeads * k)}},
      {"table of |lag|",
       LagTableTerm{
           .lags = knots, .values = random.Normals(k), .absolute_lag = true}},
      {"fire", RandomFire(random)},
  };
}

std::shared_ptr<const LagBias> Compile(const std::vector<BiasTerm>& terms,
                                       const TickRatio& ratio = kNsToSeconds,
                                       int heads = kHeads) {
  auto bias = LagBias::Compile(terms, heads, ratio);
  EXPECT_TRUE(bias.ok()) << bias.status();
  return *std::move(bias);
}

// [query_rows, key_rows] of one head, in tiles; hidden pairs keep `hidden`.
std::vector<float> Biases(const LagBias& bias, const ItemGeometry& item,
                          int head, int64_t tile_rows, int64_t tile_keys,
                          float hidden, LagTile* tile) {
  std::vector<float> all(item.query_rows * item.key_rows, hidden);
  std::vector<float> logits(tile_rows * tile_keys);
  for (int64_t i = 0; i < item.query_rows; i += tile_rows) {
    const int64_t rows = std::min(tile_rows, item.query_rows - i);
    bias.StartRows(item, i, rows, tile);
    for (int64_t j = 0; j < item.key_rows; j += tile_keys) {
      bias.Prepare(0, rows, j, tile_keys, tile);
      std::fill(logits.begin(), logits.end(), 0.0f);
      bias.Add(head, *tile, tile_keys, logits.data());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < tile_keys; ++c) {
          const float got = logits[r * tile_keys + c];
          if (j + c < item.begin[i + r] || j + c >= item.end[i + r]) {
            EXPECT_EQ(got, 0) << "hidden pair " << i + r << "," << j + c;
          } else {
            all[(i + r) * item.key_rows + j + c] = got;
          }
        }
      }
    }
  }
  return all;
}

std::vector<float> Biases(const LagBias& bias, const ItemGeometry& item,
                          int head, int64_t rows = 64, int64_t keys = 64) {
  LagTile tile;
  return Biases(bias, item, head, rows, keys, 0, &tile);
}

// The first pair beyond the bound, as text; empty if none is.
std::string FirstFault(const LagBias& bias, const ItemGeometry& item, int head,
                       double error) {
  const std::vector<float> got = Biases(bias, item, head);
  for (int64_t i = 0; i < item.query_rows; ++i) {
    for (int64_t j = item.begin[i]; j < item.end[i]; ++j) {
      const double exact = bias.Exact(head, item, i, j);
      const double size = std::max(1.0, bias.Size(head, item, i, j));
      const double value = got[i * item.key_rows + j];
      if (!(std::fabs(value - exact) <= error * size)) {
        return "pair " + std::to_string(i) + "," + std::to_string(j) +
               " of head " + std::to_string(head) + ": " +
               std::to_string(value) + " instead of " + std::to_string(exact);
      }
    }
  }
  return "";
}

// Gaps of ns, of about a second, and from 1 ms to months.
const std::pair<double, double> kSpans[] = {{0, 9}, {8.9, 9.1}, {6, 16}};

TEST(LagBias, TilesAreExactOnEverySpan) {
  Random random(11);
  for (const Kind& kind : Kinds(random)) {
    const auto ticks = Compile({kind.term});
    const auto real = Compile({kind.term}, kSeconds);
    for (const auto& [low, high] : kSpans) {
      for (int variant = 0; variant < 4; ++variant) {
        const bool exact = (variant & 1) == 0, causal = (variant & 2) == 0;
        const ItemGeometry item =
            LogUniformItem(random, 90, 150, low, high, causal, exact);
        for (int head = 0; head < kHeads; ++head) {
          EXPECT_EQ(FirstFault(exact ? *ticks : *real, item, head, kind.error),
                    "")
              << kind.name << ", gaps to 1e" << high << " ns, variant "
              << variant;
        }
      }
    }
  }
}

TEST(LagBias, EveryInstructionSetKeepsTheBound) {
  testing::OnEachTarget([] {
    Random random(10);
    for (const Kind& kind : Kinds(random)) {
      const auto bias = Compile({kind.term});
      const ItemGeometry item = LogUniformItem(random, 37, 91, 6, 12, false);
      for (int head = 0; head < kHeads; ++head) {
        EXPECT_EQ(FirstFault(*bias, item, head, kind.error), "") << kind.name;
      }
    }
  });
}

TEST(LagBias, CenturiesAndNanosecondsInOneRow) {
  constexpr int64_t kYear = 31557600000000000;
  const std::vector<int64_t> key = {
      0, 1, 292 * kYear - 1000, 292 * kYear - 2, 292 * kYear - 1, 292 * kYear};
  const ItemGeometry item = TickItem({292 * kYear}, key, true);
  Random random(12);
  for (const Kind& kind : Kinds(random)) {
    const auto bias = Compile({kind.term});
    for (int head = 0; head < kHeads; ++head) {
      EXPECT_EQ(FirstFault(*bias, item, head, kind.error), "") << kind.name;
    }
  }
}

TEST(LagBias, TileSizesDoNotChangeABit) {
  Random random(13);
  const ItemGeometry item = LogUniformItem(random, 70, 300, 7, 12, true);
  for (const Kind& kind : Kinds(random)) {
    const auto bias = Compile({kind.term});
    const std::vector<float> whole = Biases(*bias, item, 1, 128, 320);
    // Tiles are whole blocks of 64 keys wide (gemm.h); the scalar tail of other
    // widths may contract its products differently.
    for (const auto& [rows, keys] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 64}, {3, 128}, {64, 64}, {128, 256}}) {
      EXPECT_EQ(Biases(*bias, item, 1, rows, keys), whole)
          << kind.name << " " << rows << "x" << keys;
    }
  }
}

TEST(LagBias, TermsAddUp) {
  Random random(14);
  const ItemGeometry item = LogUniformItem(random, 40, 60, 7, 12, true);
  std::vector<BiasTerm> terms;
  std::vector<double> sum(40 * 60);
  for (const Kind& kind : Kinds(random)) {
    terms.push_back(kind.term);
    const std::vector<float> one = Biases(*Compile({kind.term}), item, 2);
    for (size_t e = 0; e < sum.size(); ++e) sum[e] += one[e];
  }
  // Terms of other classes are ignored.
  terms.emplace_back(AlibiTerm{});
  terms.emplace_back(CumulativeGateTerm{});
  terms.emplace_back(GrapeAdditiveTerm{
      .slopes = {1}, .query_direction = {}, .key_direction = {1, 2}});
  const std::vector<float> all = Biases(*Compile(terms), item, 2);
  for (size_t e = 0; e < sum.size(); ++e) {
    EXPECT_NEAR(all[e], sum[e], 1e-6 * std::max(100.0, std::fabs(sum[e])));
  }
}

TEST(LagBias, LagZeroGivesExactlyNothing) {
  const ItemGeometry item = TickItem({5, 5000}, {5, 5000}, true);
  for (const BiasTerm& term : std::vector<BiasTerm>{
           KerpleTerm{.r1 = {2}, .r2 = {3}},
           KerpleTerm{.power = true, .r1 = {1e20}, .r2 = {0.001}},
           KerpleTerm{.power = true, .r1 = {2}, .r2 = {2}}, SandwichTerm{}}) {
    const auto bias = Compile({term});
    const std::vector<float> got = Biases(*bias, item, 0);
    EXPECT_EQ(got[0], 0);
    EXPECT_EQ(got[3], 0);
    EXPECT_EQ(bias->Exact(0, {.ticks = 0}), 0);
  }
}

TEST(LagBias, PowerOfOneIsAlibi) {
  Random random(15);
  const std::vector<double> slopes = {0.0625, 0.00390625, 0.25};
  const auto bias =
      Compile({KerpleTerm{.power = true, .r1 = slopes, .r2 = {1}}});
  for (const auto& [low, high] : kSpans) {
    const ItemGeometry item = LogUniformItem(random, 50, 70, low, high, false);
    for (int head = 0; head < kHeads; ++head) {
      const std::vector<float> got = Biases(*bias, item, head);
      for (int64_t i = 0; i < 50; ++i) {
        for (int64_t j = 0; j < 70; ++j) {
          const double alibi = -slopes[head] * std::fabs(item.Lag(i, j)) * 1e-9;
          EXPECT_NEAR(got[i * 70 + j], alibi,
                      kLagBiasError * std::max(1.0, std::fabs(alibi)));
        }
      }
    }
  }
}

TEST(LagBias, PowersBeyondFloatsHideNothing) {
  const ItemGeometry item =
      TickItem({std::numeric_limits<int64_t>::max()}, {0, 1000}, true);
  const auto bias =
      Compile({KerpleTerm{.power = true, .r1 = {1e20}, .r2 = {2}}},
              {.tick_ns = 1000000000, .unit_ns = 1});
  for (const float value : Biases(*bias, item, 0)) {
    EXPECT_TRUE(std::isfinite(value));
    EXPECT_LE(value, -8e37f);
  }
}

// Bucket numbers as biases.
std::vector<float> Numbers(int count) {
  std::vector<float> numbers(count);
  for (int b = 0; b < count; ++b) numbers[b] = static_cast<float>(b);
  return numbers;
}

TEST(LagBias, BucketsNeverFallAndHalvesAreSymmetric) {
  const auto causal = Compile({T5Term{.table = Numbers(32)}});
  const auto both =
      Compile({T5Term{.bidirectional = true, .table = Numbers(32)}});
  const auto hstu = Compile({HstuTerm{.table = Numbers(129)}});
  double last[3] = {0, 0, 0};
  for (double lag = 1; lag < 9e18; lag = lag * 1.05 + 1) {
    const auto ticks = static_cast<int64_t>(lag);
    const double now[3] = {causal->Exact(0, {.ticks = ticks}),
                           both->Exact(0, {.ticks = ticks}),
                           hstu->Exact(0, {.ticks = ticks})};
    for (int b = 0; b < 3; ++b) EXPECT_GE(now[b], last[b]) << ticks;
    std::copy(now, now + 3, last);
    EXPECT_EQ(causal->Exact(0, {.ticks = -ticks}), 0);
    EXPECT_EQ(both->Exact(0, {.ticks = -ticks}),
              now[1] + (now[1] > 0 ? 16 : 0));
    EXPECT_EQ(hstu->Exact(0, {.ticks = -ticks}), now[2]);
  }
  EXPECT_EQ(last[0], 31);
  EXPECT_EQ(last[1], 15);
}

TEST(LagBias, BordersAreTheLeastTickOfTheirBucket) {
  const HstuTerm hstu{.table = Numbers(129)};
  const auto bias = Compile({hstu});
  const std::vector<long double> borders = HstuBorders(hstu);
  for (int k = 1; k <= 50; ++k) {
    const auto border = static_cast<int64_t>(std::ceil(borders[k - 1] * 1e9L));
    EXPECT_EQ(bias->Exact(0, {.ticks = border}), k);
    EXPECT_EQ(bias->Exact(0, {.ticks = border - 1}), k - 1);
  }
  // 8 * 16^(2/8) = 16 is an integer and belongs to the bucket it opens.
  const auto t5 =
      Compile({T5Term{.bidirectional = true, .table = Numbers(32)}});
  EXPECT_EQ(t5->Exact(0, {.ticks = 16000000000}), 10);
  EXPECT_EQ(t5->Exact(0, {.ticks = 15999999999}), 9);
  EXPECT_EQ(t5->Exact(0, {.ticks = -16000000000}), 26);
  EXPECT_EQ(t5->Exact(0, {.ticks = -999999999}), 0);
  EXPECT_EQ(t5->Exact(0, {.ticks = 999999999}), 0);
  EXPECT_EQ(t5->Exact(0, {.ticks = -1000000000}), 17);
}

TEST(LagBias, SandwichIsEvenAndNeverPositive) {
  const auto bias = Compile({SandwichTerm{.dim = 64}}, {1, 1}, 8);
  for (int64_t lag = -3000; lag <= 3000; lag += 7) {
    EXPECT_LE(bias->Exact(0, {.ticks = lag}), 0);
    EXPECT_NEAR(bias->Exact(0, {.ticks = lag}), bias->Exact(0, {.ticks = -lag}),
                1e-12);
  }
  EXPECT_NEAR(bias->Exact(0, {.ticks = 10}), -9.1093001463, 1e-10);
  EXPECT_NEAR(bias->Exact(0, {.ticks = 100}), -13.9877000868, 1e-10);
}

TEST(LagBias, FireIsFiniteAtTheFirstKey) {
  Random random(16);
  FireTerm fire = RandomFire(random);
  fire.threshold = 0;
  const auto bias = Compile({fire});
  EXPECT_FALSE(bias->of_lag_alone());
  const ItemGeometry item = TickItem({7, 7}, {7, 9}, false);
  for (const float value : Biases(*bias, item, 0)) {
    EXPECT_TRUE(std::isfinite(value));
  }
  EXPECT_EQ(FirstFault(*bias, item, 0, kLagBiasError), "");
}

TEST(LagBias, SupremumBoundsEveryLagInside) {
  Random random(17);
  for (const Kind& kind : Kinds(random)) {
    const auto bias = Compile({kind.term});
    for (int trial = 0; trial < 200; ++trial) {
      double low =
          (random.Uniform() - 0.3) * std::pow(10, 12 * random.Uniform());
      double high = low + std::pow(10, 12 * random.Uniform());
      const double bound = bias->Supremum(1, low, high);
      for (int probe = 0; probe < 20; ++probe) {
        const auto ticks =
            static_cast<int64_t>(low + (high - low) * random.Uniform());
        if (ticks < low || ticks > high) continue;
        EXPECT_LE(bias->Exact(1, {.ticks = ticks}), bound + 1e-12)
            << kind.name << " " << low << ".." << high;
      }
    }
  }
}

TEST(LagCache, HeadsShareWhatTheFirstPrepared) {
  Random random(18);
  const ItemGeometry item = LogUniformItem(random, 100, 200, 7, 12, true);
  const auto bias = Compile({SandwichTerm{}, T5Term{.table = Numbers(32)}});
  LagTile tile;
  std::vector<float> first[kHeads];
  for (int head = 0; head < kHeads; ++head) {
    first[head] = Biases(*bias, item, head, 64, 64, 0, &tile);
  }
  EXPECT_EQ(tile.cache.prepared(), 2 * 4);
  EXPECT_GT(ScratchBytes(tile), 2 * 4 * 64 * 64 * 4);
  for (int head = 0; head < kHeads; ++head) {
    EXPECT_EQ(Biases(*bias, item, head), first[head]);
  }
}

TEST(LagCache, OtherTimesAtTheSamePlaceAreNotConfused) {
  Random random(19);
  const auto bias = Compile({RandomFire(random)});
  const auto other = Compile({SandwichTerm{}});
  LagTile tile;
  ItemGeometry item;
  for (int trial = 0; trial < 20; ++trial) {
    // The same object, and often the same key or query times.
    item = LogUniformItem(random, 20, 30, 8, 9, (trial & 1) != 0);
    const ItemGeometry shifted = item;
    EXPECT_EQ(Biases(*bias, item, 0, 32, 32, 0, &tile), Biases(*bias, item, 0));
    item.query_ticks[7] += 1000000000;
    EXPECT_EQ(Biases(*bias, item, 0, 32, 32, 0, &tile), Biases(*bias, item, 0));
    item.end[3] = 0;
    EXPECT_EQ(Biases(*bias, item, 0, 32, 32, 0, &tile), Biases(*bias, item, 0));
    EXPECT_EQ(Biases(*other, item, 0, 32, 32, 0, &tile),
              Biases(*other, item, 0));
  }
}

TEST(LagCache, StaysWithinItsMemory) {
  Random random(20);
  const auto bias = Compile({SandwichTerm{.dim = 2}});
  LagTile tile;
  std::vector<float> logits(128 * 256);
  for (int i = 0; i < 300; ++i) {
    const ItemGeometry item = LogUniformItem(random, 128, 256, 8, 9, false);
    bias->StartRows(item, 0, 128, &tile);
    bias->Prepare(0, 128, 0, 256, &tile);
    bias->Add(0, tile, 256, logits.data());
  }
  EXPECT_EQ(tile.cache.prepared(), 300);
  EXPECT_LT(ScratchBytes(tile), kLagCacheBytes + (1 << 20));
}

}  // namespace
}  // namespace attnd
