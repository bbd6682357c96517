// Hides stretches of a series, so that estimates can be held against what was
// really observed there.
#ifndef ATTND_CLIENT_INTERPOLATE_HOLDOUT_H_
#define ATTND_CLIENT_INTERPOLATE_HOLDOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::client {

// `count` blocks of `length` consecutive observations each.
struct HoldoutBlocks {
  int64_t count = 0;
  int64_t length = 0;
};

// "40x13" is 40 blocks of 13.
absl::StatusOr<HoldoutBlocks> ParseHoldout(absl::string_view text);

// Which of `observations` observations in time order are hidden: every
// arrangement in which each block has a visible observation on both sides is
// equally likely. The same seed hides the same ones on every machine.
//
// The rule, for those who want to repeat it: v = observations - count * length
// stay visible; of the v - 1 gaps between them `count` receive a block. Gaps
// are looked at in time order, and one is taken when Random(seed).Below(gaps
// left) < blocks left (Knuth, algorithm 3.4.2 S; client/random.h).
//
// InvalidArgument when they do not fit: v - 1 >= count is needed.
absl::StatusOr<std::vector<bool>> HideBlocks(int64_t observations,
                                             const HoldoutBlocks& blocks,
                                             uint64_t seed);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_HOLDOUT_H_
