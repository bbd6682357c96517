#include "kernels/cumulative_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/bias.h"
#include "kernels/endpoint_bias.h"
#include "tests/kernels/each_target.h"
#include "tests/kernels/item_builder.h"

namespace attnd {
namespace {

using ::testing::AllOf;
using testing::GateTensor;
using ::testing::HasSubstr;
using testing::LogUniformItem;
using testing::Random;
using testing::TickItem;

// Of one f32 rounding, and of the sum of column and row.
constexpr double kOneRounding = 6e-8, kTwoRoundings = 1.2e-7;
constexpr TickRatio kNsToSeconds{.tick_ns = 1, .unit_ns = 1000000000};

std::vector<float> RandomGates(Random& random, int64_t count) {
  std::vector<float> gates;
  for (int64_t j = 0; j < count; ++j) {
    gates.push_back(static_cast<float>(
        -std::pow(10.0, 8 * random.Uniform() - 6) * random.Coin()));
  }
  return gates;
}

// Largest error over visible pairs as a share of max(1, |bias|), exact per
// element and, where it applies, split.
void ExpectBothForms(const CumulativeBias& bias, const ItemGeometry& item) {
  constexpr int64_t kRows = 16, kKeys = 32;
  float column[kKeys], row[kRows];
  int64_t splits = 0;
  for (int64_t i = 0; i < item.query_rows; i += kRows) {
    const int64_t rows = std::min(kRows, item.query_rows - i);
    for (int64_t j = 0; j < item.key_rows; j += kKeys) {
      const int64_t last = std::min(j + kKeys, item.key_rows);
      const bool split = bias.Split(i, rows, j, last, column, row);
      splits += split;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t begin = std::max<int64_t>(item.begin[i + r] - j, 0);
        const int64_t end = std::min<int64_t>(item.end[i + r] - j, last - j);
        std::vector<float> logits(kKeys);
        bias.AddToRow(i + r, j, begin, end, logits.data());
        const double reference = bias.Reference(i + r);
        for (int64_t c = begin; c < end; ++c) {
          const double exact = bias.Exact(i + r, j + c) - reference;
          const double size = std::max(1.0, std::fabs(exact));
          EXPECT_LE(exact, 0);
          EXPECT_NEAR(logits[c], exact, kOneRounding * size);
          if (!split) continue;
          EXPECT_LE(column[c], 0);
          EXPECT_NEAR(double{column[c]} + row[r], exact, kTwoRoundings * size);
        }
      }
    }
  }
  EXPECT_GT(splits, 0);
}

TEST(CumulativeBias, RowsAndSplitsAreExactOnEverySpan) {
  Random random(21);
  for (const bool exact : {true, false}) {
    for (const bool causal : {true, false}) {
      for (const GateWeights& weights : std::vector<GateWeights>{
               {.per_key = 1},
               {.per_tick = exact ? 1e-9 : 1.0},
               {.per_key = 1, .per_tick = exact ? 1e-9 : 1.0}}) {
        const ItemGeometry item =
            LogUniformItem(random, 100, 300, 3, 15, causal, exact);
        const std::vector<float> gates = RandomGates(random, 300);
        CumulativeBias bias;
        bias.Start(item, weights, GateTensor(gates), 0, 0);
        ExpectBothForms(bias, item);
      }
    }
  }
}

TEST(CumulativeBias, EveryInstructionSetIsExact) {
  testing::OnEachTarget([] {
    Random random(20);
    const ItemGeometry item = LogUniformItem(random, 40, 100, 3, 15, false);
    const std::vector<float> gates = RandomGates(random, 100);
    CumulativeBias bias;
    bias.Start(item, {.per_key = 1}, GateTensor(gates), 0, 0);
    ExpectBothForms(bias, item);
  });
}

TEST(CumulativeBias, ConstantRatesAreAlibi) {
  Random random(22);
  // Queries at the times of keys.
  const std::vector<int64_t> times =
      testing::LogUniformTimes(random, 200, 3, 14);
  const ItemGeometry item = TickItem(times, times, true);
  const std::vector<float> gates(200, -0.25f);
  CumulativeBias bias;
  bias.Start(
      item,
      SumGateWeights({CumulativeGateTerm{.per_unit = true}}, kNsToSeconds),
      GateTensor(gates), 0, 0);
  const LinearBias alibi{&item, -0.25e-9};
  for (int64_t i = 0; i < 200; ++i) {
    std::vector<float> fox(200), linear(200);
    bias.AddToRow(i, 0, 0, item.end[i], fox.data());
    alibi.AddToRow(i, 0, 0, item.end[i], linear.data());
    for (int64_t j = 0; j < item.end[i]; ++j) {
      EXPECT_NEAR(fox[j], linear[j],
                  kTwoRoundings * std::max(1.0f, std::fabs(linear[j])));
    }
    EXPECT_NEAR(bias.Reference(i), alibi.Reference(i), 1e-12);
  }
}

TEST(CumulativeBias, OpenGatesAddNothing) {
  Random random(23);
  const ItemGeometry item = LogUniformItem(random, 30, 50, 3, 14, true);
  const std::vector<float> gates(50, 0.0f);
  CumulativeBias bias;
  bias.Start(item, {.per_key = 1, .per_tick = 1}, GateTensor(gates), 0, 0);
  for (int64_t i = 0; i < 30; ++i) {
    std::vector<float> row(50, 3.5f);
    bias.AddToRow(i, 0, 0, item.end[i], row.data());
    EXPECT_THAT(row, ::testing::Each(3.5f));
    EXPECT_EQ(bias.Reference(i), 0);
  }
}

TEST(CumulativeBias, SumsOverAdjacentStretchesCompose) {
  Random random(24);
  const std::vector<int64_t> times = testing::LogUniformTimes(random, 60, 9, 9);
  const ItemGeometry item = TickItem(times, times, true);
  const std::vector<float> gates = RandomGates(random, 60);
  CumulativeBias bias;
  bias.Start(item, {.per_key = 1}, GateTensor(gates), 0, 0);
  for (int64_t i = 20; i < 60; i += 7) {
    for (int64_t m = 10; m < 20; ++m) {
      // Only where query m sees key m as its last.
      if (item.end[m] != m + 1) continue;
      for (int64_t j = 0; j < 10; ++j) {
        const double whole = bias.Exact(i, j);
        EXPECT_NEAR(bias.Exact(i, m) + bias.Exact(m, j), whole,
                    1e-14 * std::fabs(whole));
      }
    }
  }
}

// A double of 1e12 resolves 1e-4: the sums must know more.
TEST(CumulativeBias, HugeGatesDoNotBlurSmallOnes) {
  const ItemGeometry item = TickItem({3, 4}, {0, 1, 2, 3, 4}, true);
  const std::vector<float> gates = {-1e20f, -1e-3f, -1e-3f, -2e-3f, -1e-3f};
  CumulativeBias bias;
  bias.Start(item, {.per_key = 1}, GateTensor(gates), 0, 0);
  std::vector<float> row(5);
  bias.AddToRow(1, 0, 0, 5, row.data());
  EXPECT_FLOAT_EQ(row[4], 0);
  EXPECT_FLOAT_EQ(row[3], -1e-3f);
  EXPECT_FLOAT_EQ(row[2], -3e-3f);
  EXPECT_FLOAT_EQ(row[0], -5e-3f);
}

TEST(CumulativeBias, WeightsOfTermsAddUp) {
  const TickRatio ms{.tick_ns = 1000000, .unit_ns = 1000000000};
  EXPECT_FALSE(SumGateWeights({AlibiTerm{}}, ms).any());
  EXPECT_EQ(SumGateWeights({CumulativeGateTerm{}}, ms),
            (GateWeights{.per_key = 1}));
  EXPECT_EQ(SumGateWeights(
                {CumulativeGateTerm{}, SandwichTerm{}, PathIntegralTerm{}}, ms),
            (GateWeights{.per_key = 1, .per_tick = 1e-3}));
  EXPECT_EQ(SumGateWeights({PathIntegralTerm{.quadrature = false}}, ms),
            (GateWeights{.per_key = 1}));
}

TEST(CheckGates, NamesTheFirstBadElementAndCounts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  ItemGeometry item = TickItem({5}, {1, 2, 3}, true);
  // Row 1 is not valid.
  item.key_order = {0, 2, 3};
  const auto status = [&](const std::vector<float>& gates) {
    return CheckGates(GateTensor(gates), item, 0);
  };
  EXPECT_TRUE(status({-1, nan, 0, -1e30f}).ok());
  EXPECT_THAT(std::string(status({-1, 0, 0.5f, nan}).message()),
              AllOf(HasSubstr("gates: element [0,0,2] is 0.5"),
                    HasSubstr("<= 0"), HasSubstr("2 such")));
  for (const float bad : {nan, infinity, -infinity, 1e-30f}) {
    EXPECT_EQ(status({bad, 0, 0, 0}).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(EndpointBias, LagsAreExactOnEverySpan) {
  Random random(25);
  const GrapeAdditiveTerm term{.slopes = {0.5, 1e-6},
                               .query_direction = random.Normals(8),
                               .key_direction = random.Normals(8)};
  for (const bool exact : {true, false}) {
    const auto bias =
        EndpointBias::Compile({term}, 2, 8, exact ? kNsToSeconds : TickRatio{});
    ASSERT_TRUE(bias.ok()) << bias.status();
    const ItemGeometry item =
        LogUniformItem(random, 20, 50, 0, 17, true, exact);
    std::vector<double> factors;
    for (int j = 0; j < 50; ++j) {
      factors.push_back(bias->KeyFactor(1, random.Normals(8).data()));
    }
    for (int64_t i = 0; i < 20; ++i) {
      const double by = bias->QueryFactor(1, random.Normals(8).data());
      std::vector<float> row(50);
      AddEndpointBias(item, by, factors.data(), i, 0, 0, item.end[i],
                      row.data());
      for (int64_t j = 0; j < item.end[i]; ++j) {
        const double expected = -std::fabs(item.Lag(i, j)) * (by + factors[j]);
        EXPECT_NEAR(row[j], expected, kOneRounding * std::fabs(expected));
      }
    }
  }
}

TEST(EndpointBias, RefusesWhatDoesNotFit) {
  const auto message = [](const GrapeAdditiveTerm& term) {
    return std::string(EndpointBias::Compile({AlibiTerm{}, term}, 2, 4, {})
                           .status()
                           .message());
  };
  EXPECT_THAT(
      message({.slopes = {1}, .query_direction = {1, 2}, .key_direction = {}}),
      HasSubstr("biases[1].grape_additive.query_direction: 2 entries, "
                "expected 4"));
  EXPECT_THAT(message({.slopes = {1, 2, 3},
                       .query_direction = {},
                       .key_direction = {1, 2, 3, 4}}),
              HasSubstr("biases[1].grape_additive.slopes: 3 entries"));
  EXPECT_THAT(
      message({.slopes = {1}, .query_direction = {}, .key_direction = {}}),
      HasSubstr("biases[1].grape_additive.query_direction"));
}

}  // namespace
}  // namespace attnd
