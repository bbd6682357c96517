#include "kernels/query_temperature.h"

#include <algorithm>
#include <cmath>

namespace attnd {
namespace {

// Units since the first valid key, in 64 bits of precision: whole units come
// out whole.
long double Elapsed(const TickRatio& ratio, const ItemGeometry& item,
                    int64_t i) {
  if (item.key_rows == 0) return 0;
  const long double ticks =
      item.exact
          ? static_cast<long double>(item.query_ticks[i] - item.key_ticks[0])
          : static_cast<long double>(item.query_real[i]) - item.key_real[0];
  return ticks * ratio.tick_ns / ratio.unit_ns;
}

}  // namespace

double TemperatureFactor(const QueryTemperature& temperature,
                         const TickRatio& ratio, const ItemGeometry& item,
                         int64_t i) {
  if (!temperature.llama4) {
    const auto n =
        static_cast<double>(std::max<int64_t>(item.VisibleKeys(i), 1));
    return std::max(1.0, std::log(n) / std::log(temperature.length));
  }
  const long double step = std::floor(
      (Elapsed(ratio, item, i) + temperature.offset) / temperature.length);
  if (step <= 0) return 1;
  return 1 + temperature.scale * std::log1p(static_cast<double>(step));
}

}  // namespace attnd
