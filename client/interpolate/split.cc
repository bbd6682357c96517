#include "client/interpolate/split.h"

#include <algorithm>
#include <cmath>

namespace attnd::client {

absl::StatusOr<Split> SplitSeries(const Series& series,
                                  const HoldoutBlocks& blocks, uint64_t seed) {
  const int64_t observations =
      std::count_if(series.value.begin(), series.value.end(),
                    [](double value) { return !std::isnan(value); });
  std::vector<bool> hidden(observations, false);
  if (blocks.count > 0) {
    absl::StatusOr<std::vector<bool>> chosen =
        HideBlocks(observations, blocks, seed);
    if (!chosen.ok()) return chosen.status();
    hidden = *std::move(chosen);
  }
  Split split;
  size_t observation = 0;
  for (size_t i = 0; i < series.value.size(); ++i) {
    if (std::isnan(series.value[i])) {
      split.missing_ns.push_back(series.time_ns[i]);
      continue;
    }
    Points& points = hidden[observation++] ? split.hidden : split.visible;
    points.time_ns.push_back(series.time_ns[i]);
    points.value.push_back(series.value[i]);
  }
  return split;
}

}  // namespace attnd::client
