// Where the rows of an item stand along the axes of its free turns: as sent,
// for they turn by places, not by lags.
#ifndef ATTND_KERNELS_FREE_PLACES_H_
#define ATTND_KERNELS_FREE_PLACES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/plan.h"

namespace attnd {

// Places along one source of the encoder, in units from its zero, of the item's
// queries or keys in its order.
std::vector<double> PlacesAlong(const AttentionProblem& problem,
                                const Encoder& encoder, int source,
                                int64_t number, int64_t kv_head,
                                const ItemGeometry& item, bool query);

// INVALID_ARGUMENT where a turn would pass kMaxFreeAngle: names the first such
// row and how many there are.
absl::Status CheckFreePlaces(const AttentionProblem& problem,
                             const Encoder& encoder, const ItemGeometry& item,
                             int64_t number);

}  // namespace attnd

#endif  // ATTND_KERNELS_FREE_PLACES_H_
