#include "kernels/growth_check.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

// The pair of visible rows that are farthest apart.
struct Farthest {
  int64_t query = 0, key = 0;
  double lag = 0;  // its size, in the item's own unit
};

Farthest FindFarthest(const ItemGeometry& item) {
  Farthest farthest;
  for (int64_t i = 0; i < item.query_rows; ++i) {
    // Keys are in order; some of them may be hidden.
    int64_t first = item.begin[i], last = int64_t{item.end[i]} - 1;
    while (first <= last && !item.Sees(i, first)) ++first;
    while (first <= last && !item.Sees(i, last)) --last;
    if (first > last) continue;
    for (const int64_t j : {first, last}) {
      const double lag = std::fabs(item.Lag(i, j));
      if (lag > farthest.lag) {
        farthest = {item.QueryRow(i), item.KeyRow(j), lag};
      }
    }
  }
  return farthest;
}

// ln of the largest entry within lags of up to `units`.
double LogOfGrowth(int order, double coupling, double rate, double units) {
  const int power = order - 1;
  const double at = rate > 0 ? std::min(units, power / rate) : units;
  return power * std::log(std::fabs(coupling) * at) - std::lgamma(order) -
         rate * at;
}

}  // namespace

absl::Status CheckGrowth(const Encoder& encoder, int64_t kv_heads,
                         const ItemGeometry& item, int64_t number) {
  std::optional<Farthest> farthest;
  for (int64_t h = 0; h < (encoder.one_generator() ? 1 : kv_heads); ++h) {
    const HeadEncoder& head = encoder.head(h);
    for (const auto& group : head.chain_groups()) {
      if (group.order < 2) continue;
      if (!farthest) farthest = FindFarthest(item);
      if (farthest->lag == 0) return absl::OkStatus();
      for (int c = group.factor_offset; c < group.factor_offset + group.count;
           ++c) {
        const int source = head.chain_sources()[c];
        const Drive& drive = encoder.sources()[source];
        if (drive.clock || drive.coordinate > 0) continue;
        const double units = farthest->lag * encoder.units_per_tick(source);
        if (LogOfGrowth(group.order, head.exact_couplings()[c],
                        head.exact_rates()[c],
                        units) <= std::log(kMostGrowth)) {
          continue;
        }
        return RefuseField(
            "encoding",
            absl::StrCat("grows with the lag beyond what floats hold: in item ",
                         number, " query row ", farthest->query,
                         " and key row ", farthest->key, " are ", units,
                         " units apart, and a Jordan block ", "of kv head ", h,
                         " takes that to the power of ", group.order - 1,
                         "; configure a longer time_unit, or a tau"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace attnd
