// Attention over all keys from attention over parts of them, by lse.
#ifndef ATTND_KERNELS_MERGE_H_
#define ATTND_KERNELS_MERGE_H_

#include <cstdint>

#include "absl/types/span.h"

namespace attnd {

// What some rows answered over a part of their keys.
struct PartialAnswer {
  absl::Span<const float> output;  // [rows, dim]
  absl::Span<const float> lse;     // [rows]
};

// output [rows, dim] and lse [rows] of the same rows over all keys, when every
// key belongs to exactly one part: sum of e^{lse_p} output_p over e^{lse}. Sums
// are in double and rounded once, so any number of parts keeps the accuracy
// contract of one pass. A part that saw no key (lse -inf) counts nothing; a NaN
// stays one. What counts keys (windows in keys, prefix, gates, temperature)
// must not be split, sinks belong to one part, and answers under a value mask
// have no lse of their own to merge by. Spans may not overlap. Thread-safe.
void MergePartial(absl::Span<const PartialAnswer> parts, int64_t dim,
                  absl::Span<float> output, absl::Span<float> lse);

}  // namespace attnd

#endif  // ATTND_KERNELS_MERGE_H_
