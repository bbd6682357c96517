// Golden vectors of biases judge the double formulas and the tiles alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cumulative_bias.h"
#include "kernels/endpoint_bias.h"
#include "kernels/lag_bias.h"
#include "kernels/sandwich.h"
#include "tests/golden/golden_file.h"
#include "tests/kernels/item_builder.h"

namespace attnd::testing {
namespace {

std::vector<float> Floats(const GoldenRecord& record, const char* key) {
  const std::vector<double> values = record.Get(key).Numbers();
  return {values.begin(), values.end()};
}

TickRatio RatioOf(const GoldenRecord& record) {
  const GoldenRecord::Line& line = record.Get("ratio");
  return {.tick_ns = line.Integer(0), .unit_ns = line.Integer(1)};
}

BiasTerm TermOf(const GoldenRecord& record) {
  const std::string& name = record.Get("term").values[0];
  const auto integer = [&](const char* key) {
    return static_cast<int>(record.Get(key).Integer(0));
  };
  if (name == "t5") {
    return T5Term{.buckets = integer("buckets"),
                  .max_distance = record.Get("max_distance").Number(0),
                  .bidirectional = integer("bidirectional") != 0,
                  .table = Floats(record, "table")};
  }
  if (name == "hstu") {
    return HstuTerm{.max_bucket = integer("max_bucket"),
                    .log_step = record.Get("log_step").Number(0),
                    .table = Floats(record, "table")};
  }
  if (name == "sandwich") {
    return SandwichTerm{.dim = integer("dim"),
                        .base = record.Get("base").Number(0)};
  }
  if (name == "fire") {
    return FireTerm{.c = record.Get("c").Number(0),
                    .threshold = record.Get("threshold").Number(0),
                    .hidden = static_cast<int>(record.Get("w1").values.size()),
                    .w1 = Floats(record, "w1"),
                    .b1 = Floats(record, "b1"),
                    .w2 = Floats(record, "w2"),
                    .b2 = Floats(record, "b2")};
  }
  if (name == "lag_table") {
    return LagTableTerm{.lags = record.Get("lags").Numbers(),
                        .values = Floats(record, "values"),
                        .absolute_lag = integer("absolute") != 0};
  }
  return KerpleTerm{.power = name == "kerple_power",
                    .r1 = record.Get("r1").Numbers(),
                    .r2 = record.Get("r2").Numbers()};
}

// One line "at".
struct Value {
  int head = 0;
  int64_t ticks = 0, elapsed = 0;
  double bias = 0;
};

std::vector<Value> ValuesOf(const GoldenRecord& record) {
  std::vector<Value> values;
  for (const GoldenRecord::Line& line : record.lines()) {
    if (line.key != "at") continue;
    values.push_back({.head = static_cast<int>(line.Integer(0)),
                      .ticks = line.Integer(1),
                      .elapsed = line.Integer(2),
                      .bias = line.Number(3)});
  }
  return values;
}

class BiasGolden : public ::testing::TestWithParam<GoldenRecord> {
 protected:
  void SetUp() override {
    auto bias =
        LagBias::Compile({TermOf(GetParam())},
                         static_cast<int>(GetParam().Get("heads").Integer(0)),
                         RatioOf(GetParam()));
    ASSERT_TRUE(bias.ok()) << bias.status();
    bias_ = *std::move(bias);
  }
  std::shared_ptr<const LagBias> bias_;
};

TEST_P(BiasGolden, FormulaAgrees) {
  for (const Value& value : ValuesOf(GetParam())) {
    const double got = bias_->Exact(
        value.head,
        {.ticks = value.ticks, .elapsed = static_cast<double>(value.elapsed)});
    EXPECT_NEAR(got, value.bias, 1e-11 * std::max(1.0, std::fabs(value.bias)))
        << "head " << value.head << " lag " << value.ticks;
  }
}

TEST_P(BiasGolden, RealTimesAgreeWhereTheyAreExact) {
  for (const Value& value : ValuesOf(GetParam())) {
    const double real = static_cast<double>(value.ticks);
    const double got = bias_->Exact(
        value.head, {.exact = false,
                     .real = real,
                     .elapsed = static_cast<double>(value.elapsed)});
    EXPECT_NEAR(got, value.bias, 1e-11 * std::max(1.0, std::fabs(value.bias)))
        << "head " << value.head << " lag " << value.ticks;
  }
}

// One query that sees a key per lag; where the time since the first key counts,
// only lags up to it.
TEST_P(BiasGolden, TilesAgree) {
  std::vector<Value> values = ValuesOf(GetParam());
  const bool from_first = !bias_->of_lag_alone();
  const int64_t elapsed = values[0].elapsed;
  int64_t low = 0, high = 0;
  std::vector<int64_t> key;
  for (const Value& value : values) {
    low = std::min(low, value.ticks);
    high = std::max(high, value.ticks);
  }
  const int64_t query = from_first ? elapsed : high;
  if (from_first) key.push_back(0);
  for (const Value& value : values) {
    if (value.head != 0) break;
    if (from_first && value.ticks > elapsed) continue;
    key.push_back(query - value.ticks);
  }
  const ItemGeometry item = TickItem({query}, key, false);
  std::vector<float> logits(item.key_rows);
  LagTile tile;
  bias_->StartRows(item, 0, 1, &tile);
  bias_->Prepare(0, 1, 0, item.key_rows, &tile);
  const bool sandwich = GetParam().Get("term").values[0] == "sandwich";
  for (const Value& value : values) {
    if (from_first && value.ticks > elapsed) continue;
    std::fill(logits.begin(), logits.end(), 0.0f);
    bias_->Add(value.head, tile, item.key_rows, logits.data());
    const int64_t lag = value.ticks;
    const auto at =
        std::find_if(item.key_ticks.begin(), item.key_ticks.end(),
                     [&](int64_t t) { return item.query_ticks[0] - t == lag; });
    const int64_t j = at - item.key_ticks.begin();
    EXPECT_NEAR(logits[j], value.bias,
                (sandwich ? kSandwichError : kLagBiasError) *
                    std::max(1.0, bias_->Size(value.head, item, 0, j)))
        << "head " << value.head << " lag " << value.ticks;
  }
}

INSTANTIATE_TEST_SUITE_P(Terms, BiasGolden,
                         ::testing::ValuesIn(ReadGoldenFile("biases.txt")));

std::vector<std::vector<double>> RowsOf(const GoldenRecord& record) {
  std::vector<std::vector<double>> rows;
  for (const GoldenRecord::Line& line : record.lines()) {
    if (line.key == "row") rows.push_back(line.Numbers());
  }
  return rows;
}

ItemGeometry ItemOf(const GoldenRecord& record) {
  return TickItem(record.Get("query").Integers(), record.Get("key").Integers(),
                  false);
}

TEST(GateGolden, SumsAgree) {
  for (const GoldenRecord& record : ReadGoldenFile("gates.txt")) {
    if (record.Find("gates") == nullptr) continue;
    const std::string& name = record.Get("gates").values[0];
    std::vector<BiasTerm> terms;
    if (name != "per_unit") terms.emplace_back(CumulativeGateTerm{});
    if (name != "per_key") {
      terms.emplace_back(PathIntegralTerm{.quadrature = true});
    }
    const ItemGeometry item = ItemOf(record);
    const std::vector<float> values = Floats(record, "values");
    const auto gates = GateTensor(values);
    CumulativeBias bias;
    bias.Start(item, SumGateWeights(terms, RatioOf(record)), gates, 0, 0);
    const auto rows = RowsOf(record);
    for (int64_t i = 0; i < item.query_rows; ++i) {
      for (int64_t j = 0; j < item.key_rows; ++j) {
        EXPECT_NEAR(bias.Exact(i, j), rows[i][j], 1e-12)
            << name << " " << i << "," << j;
      }
    }
  }
}

TEST(GrapeGolden, EndpointsAgree) {
  for (const GoldenRecord& record : ReadGoldenFile("gates.txt")) {
    if (record.Find("grape") == nullptr) continue;
    const GrapeAdditiveTerm term{
        .slopes = record.Get("slopes").Numbers(),
        .query_direction = Floats(record, "query_direction"),
        .key_direction = Floats(record, "key_direction")};
    const auto bias = EndpointBias::Compile({term}, 2, 4, RatioOf(record));
    ASSERT_TRUE(bias.ok()) << bias.status();
    const ItemGeometry item = ItemOf(record);
    std::vector<std::vector<float>> q, k;
    for (const GoldenRecord::Line& line : record.lines()) {
      const std::vector<double> row = line.key == "q" || line.key == "k"
                                          ? line.Numbers()
                                          : std::vector<double>();
      if (line.key == "q") q.emplace_back(row.begin(), row.end());
      if (line.key == "k") k.emplace_back(row.begin(), row.end());
    }
    const auto rows = RowsOf(record);
    for (int head = 0; head < 2; ++head) {
      std::vector<double> factors;
      for (const auto& key : k) {
        factors.push_back(bias->KeyFactor(head, key.data()));
      }
      for (int64_t i = 0; i < item.query_rows; ++i) {
        std::vector<float> row(item.key_rows);
        AddEndpointBias(item, bias->QueryFactor(head, q[i].data()),
                        factors.data(), i, 0, 0, item.key_rows, row.data());
        for (int64_t j = 0; j < item.key_rows; ++j) {
          const double expected = rows[head * item.query_rows + i][j];
          EXPECT_NEAR(row[j], expected,
                      kLagBiasError * std::max(1.0, std::fabs(expected)))
              << record.Get("grape").values[0] << " " << i << "," << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace attnd::testing
