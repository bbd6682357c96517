#include "client/interpolate/holdout.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/random.h"
#include "proto/wire.h"

namespace attnd::client {

absl::StatusOr<HoldoutBlocks> ParseHoldout(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('x', 1));
  HoldoutBlocks blocks;
  if (absl::SimpleAtoi(parts.first, &blocks.count) && blocks.count >= 1 &&
      absl::SimpleAtoi(parts.second, &blocks.length) && blocks.length >= 1) {
    return blocks;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--holdout '", text,
      "', expected blocks x length of at least 1 each, for example 40x13"));
}

absl::StatusOr<std::vector<bool>> HideBlocks(int64_t observations,
                                             const HoldoutBlocks& blocks,
                                             uint64_t seed) {
  const std::optional<int64_t> hidden =
      wire::CheckedMultiply(blocks.count, blocks.length);
  const int64_t gaps = hidden ? observations - *hidden - 1 : -1;
  if (gaps < blocks.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("--holdout ", blocks.count, "x", blocks.length,
                     ": does not fit into ", observations,
                     " observations with a visible one on each side of every "
                     "block; hide fewer or shorter blocks"));
  }
  Random random(seed);
  std::vector<bool> result;
  result.reserve(observations);
  int64_t blocks_left = blocks.count;
  for (int64_t gaps_left = gaps; gaps_left > 0; --gaps_left) {
    result.push_back(false);
    if (static_cast<int64_t>(random.Below(gaps_left)) < blocks_left) {
      result.insert(result.end(), blocks.length, true);
      --blocks_left;
    }
  }
  result.push_back(false);
  return result;
}

}  // namespace attnd::client
