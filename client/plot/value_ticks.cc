#include "client/plot/value_ticks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace attnd::client {

std::vector<ValueTick> ValueTicks(double low, double high, int most) {
  const double least = (high - low) / most;
  double step = std::pow(10, std::floor(std::log10(least)));
  for (double times : {1.0, 2.0, 5.0, 10.0}) {
    if (times * step >= least) {
      step *= times;
      break;
    }
  }
  const int decimals =
      std::max(0, -static_cast<int>(std::floor(std::log10(step) + 1e-9)));
  std::vector<ValueTick> ticks;
  for (double i = std::ceil(low / step); i * step <= high; ++i) {
    // 0 and not -0; no 17 digits of 0.30000000000000004.
    const double value = i * step + 0.0;
    ticks.push_back({value, decimals > 6 || step >= 1e7
                                ? absl::StrFormat("%g", value)
                                : absl::StrFormat("%.*f", decimals, value)});
  }
  return ticks;
}

}  // namespace attnd::client
