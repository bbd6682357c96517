// Generator blocks -> direct sum of planes, chains and small blocks at a known
// head dimension.
#ifndef ATTND_KERNELS_BLOCK_RESOLUTION_H_
#define ATTND_KERNELS_BLOCK_RESOLUTION_H_

#include <atomic>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/direct_sum_builder.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// Lays the blocks over channels 0 .. head_dim - 1 in order. `length` is the
// number of valid keys of the item. The blocks must have passed CheckBlocks.
// INVALID_ARGUMENT with the path "blocks[i]..." where a block does not fit the
// channels that are left, grows, or is averaged among others that are not.
// CANCELLED soon after `stop`, if not null, becomes true.
absl::StatusOr<ResolvedBlocks> ResolveBlocks(const std::vector<Block>& blocks,
                                             int head_dim, double length,
                                             const std::atomic<bool>* stop);

}  // namespace attnd

#endif  // ATTND_KERNELS_BLOCK_RESOLUTION_H_
