// A series taken apart: what the estimate may see, and what it is held against.
#ifndef ATTND_CLIENT_INTERPOLATE_SPLIT_H_
#define ATTND_CLIENT_INTERPOLATE_SPLIT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "client/interpolate/holdout.h"
#include "client/interpolate/series.h"

namespace attnd::client {

// Times and values of some rows, sorted by time.
struct Points {
  std::vector<int64_t> time_ns;
  std::vector<double> value;
};

struct Split {
  Points visible;
  Points hidden;
  // Times of rows without a value.
  std::vector<int64_t> missing_ns;
};

// Hides `blocks` of the rows that have a value (a count of 0 hides none) and
// leaves the others visible. InvalidArgument when they do not fit.
absl::StatusOr<Split> SplitSeries(const Series& series,
                                  const HoldoutBlocks& blocks, uint64_t seed);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_SPLIT_H_
