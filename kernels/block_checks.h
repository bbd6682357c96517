// What can be said against generator blocks before sizes are known.
#ifndef ATTND_KERNELS_BLOCK_CHECKS_H_
#define ATTND_KERNELS_BLOCK_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// The name of a block's kind on the wire: "rotary", "component_decay", ...
std::string KindName(const Block& block);

// Finite numbers, ranges and counts of each block. INVALID_ARGUMENT with the
// path of the first offending field below `path` ("blocks[1].rotary.base:
// ..."). Eigenvalues of dense blocks are not looked at.
absl::Status CheckBlocks(const std::vector<Block>& blocks,
                         const std::string& path);

}  // namespace attnd

#endif  // ATTND_KERNELS_BLOCK_CHECKS_H_
