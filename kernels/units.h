// How the rows and heads of an item are cut into units of work.
#ifndef ATTND_KERNELS_UNITS_H_
#define ATTND_KERNELS_UNITS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/plan.h"
#include "kernels/visibility.h"

namespace attnd {

// The query heads that share one kv head of one item.
struct HeadGroup {
  int64_t item = 0;
  int64_t kv_head = 0;
  int64_t heads = 1;
  int64_t flops_per_pair = 0;  // of each
};

// Cuts a group into units of whole tiles: several tiles of all its heads, or,
// where one is too much, one tile of some of them. Adds their counts to `all`.
void AppendUnits(const ItemGeometry& item, const HeadGroup& group,
                 std::vector<Unit>& units, TileCounts& all);

// Orders the units of an item so that all heads of some rows come before the
// next rows, as many as kRowsTogetherBytes of planes hold. What one head
// prepares for these rows (lag_tile.h) then still lies near when the others
// want it; the price is that heads pack their keys more often.
void HeadsTogether(absl::Span<Unit> units, int64_t flops_per_pair);
inline constexpr int64_t kRowsTogetherBytes = 8 << 20;

}  // namespace attnd

#endif  // ATTND_KERNELS_UNITS_H_
