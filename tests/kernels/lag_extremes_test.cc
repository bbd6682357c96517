// Biases over the lag with parameters and lags of any size: whatever a
// configuration may hold, no visible pair gets a NaN or becomes a hidden one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/lag_bias.h"
#include "kernels/lag_curve.h"
#include "tests/kernels/item_builder.h"

namespace attnd {
namespace {

using testing::RealItem;
using testing::TickItem;

constexpr double kSizes[] = {1e-300, 1e-38, 1e-20, 1e-9, 1.5,
                             1e9,    1e20,  1e30,  1e38, 1e300};

struct Named {
  std::string name;
  BiasTerm term;
};

std::vector<Named> Extremes() {
  std::vector<Named> terms;
  const auto add = [&](const std::string& name, const BiasTerm& term) {
    terms.push_back({name, term});
  };
  for (const double a : kSizes) {
    for (const double b : kSizes) {
      const std::string sizes = absl::StrCat(" ", a, " ", b);
      add("kerple log" + sizes, KerpleTerm{.r1 = {a}, .r2 = {b}});
      add("kerple power" + sizes,
          KerpleTerm{.power = true, .r1 = {a}, .r2 = {std::min(b, 2.0)}});
      add("fire" + sizes, FireTerm{.c = a,
                                   .threshold = b,
                                   .hidden = 2,
                                   .w1 = {1, -2},
                                   .b1 = {0.5f, 1},
                                   .w2 = {3, -1},
                                   .b2 = {0.25f}});
    }
    if (a < 1 || a > 1e37) continue;
    add(absl::StrCat("table to ", a),
        LagTableTerm{.lags = {-a, 0, 1, a * 2}, .values = {-1, 1, 2, -3}});
  }
  return terms;
}

// One tile of everything.
std::vector<float> Biases(const LagBias& bias, const ItemGeometry& item) {
  const int64_t rows = item.query_rows, keys = item.key_rows;
  LagTile tile;
  bias.StartRows(item, 0, rows, &tile);
  bias.Prepare(0, rows, 0, keys, &tile);
  std::vector<float> biases(rows * keys);
  bias.Add(0, tile, keys, biases.data());
  return biases;
}

std::string FirstFault(const LagBias& bias, const ItemGeometry& item) {
  const std::vector<float> got = Biases(bias, item);
  for (int64_t i = 0; i < item.query_rows; ++i) {
    for (int64_t j = item.begin[i]; j < item.end[i]; ++j) {
      const double exact = bias.Exact(0, item, i, j);
      const double value = got[i * item.key_rows + j];
      const double size = std::max(1.0, bias.Size(0, item, i, j));
      const bool beyond = std::fabs(exact) > kLargestBias;
      if (beyond ? exact < 0 && value <= -kLargestBias * (1 - 1e-6) &&
                       std::isfinite(value)
                 : std::fabs(value - exact) <= 3e-7 * size) {
        continue;
      }
      return absl::StrCat("pair ", i, ",", j, ": ", value, " instead of ",
                          exact);
    }
  }
  return "";
}

TEST(LagExtremes, NothingBecomesNaNOrHidden) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> ticks = {0, 1, 1000, 1000000000000, kMost};
  const ItemGeometry exact = TickItem(ticks, ticks, true);
  const std::vector<double> times = {0, 1e-30, 1, 1e12, 1e36, 1e100};
  const ItemGeometry real = RealItem(times, times, true);
  for (const Named& each : Extremes()) {
    const auto compile = [&](const TickRatio& ratio) {
      auto bias = LagBias::Compile({each.term}, 1, ratio);
      EXPECT_TRUE(bias.ok()) << each.name << ": " << bias.status();
      return *std::move(bias);
    };
    EXPECT_EQ(FirstFault(*compile({.tick_ns = 1, .unit_ns = 1}), exact), "")
        << each.name;
    EXPECT_EQ(
        FirstFault(*compile({.tick_ns = 1, .unit_ns = 1000000000}), exact), "")
        << each.name << " in seconds";
    EXPECT_EQ(FirstFault(*compile({.tick_ns = 1, .unit_ns = 1}), real), "")
        << each.name << " over real times";
  }
}

}  // namespace
}  // namespace attnd
