// The factor of a query by its time or by how many keys it sees.
#include "kernels/query_temperature.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/golden/golden_file.h"
#include "tests/kernels/item_builder.h"

namespace attnd {
namespace {

using testing::GoldenRecord;
using testing::ReadGoldenFile;

TEST(TemperatureGolden, FactorsAgree) {
  for (const GoldenRecord& record : ReadGoldenFile("absolutes.txt")) {
    const GoldenRecord::Line* head = record.Find("temperature");
    if (head == nullptr) continue;
    const QueryTemperature temperature{.llama4 = head->values[0] == "llama4",
                                       .length = head->Number(1),
                                       .scale = head->Number(2),
                                       .offset = head->Number(3)};
    for (const GoldenRecord::Line& line : record.lines()) {
      if (line.key != "at") continue;
      ItemGeometry item = testing::TickItem({0, 1LL << 40}, {0}, true);
      if (temperature.llama4) {
        item.query_ticks[1] = line.Integer(0);
      } else {
        item.begin[1] = 5;
        item.end[1] = 5 + static_cast<int32_t>(line.Integer(0));
      }
      EXPECT_NEAR(TemperatureFactor(temperature,
                                    {.tick_ns = 1000000, .unit_ns = 1000000000},
                                    item, 1),
                  line.Number(1), 1e-14)
          << head->values[0] << " at " << line.values[0];
    }
  }
}

TEST(QueryTemperature, IsOneBeforeTheFirstKey) {
  const ItemGeometry item = testing::TickItem({-1000000, 5}, {0}, false);
  EXPECT_EQ(TemperatureFactor({.llama4 = true, .length = 2}, {}, item, 0), 1);
}

}  // namespace
}  // namespace attnd
