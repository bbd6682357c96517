// Attention over more keys than one call carries: split them over several calls
// and merge the answers.
#ifndef ATTND_CLIENT_MERGE_H_
#define ATTND_CLIENT_MERGE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attnd/v1/attention.pb.h"

namespace attnd::client {

// The output and lse of one call over all keys, from calls with the same
// queries over parts of them: every key in exactly one part, outputs OUTPUT and
// LSE asked for in each. Output has the layout and element type of the parts,
// which must agree in both and in shape; sums are in double and rounded once.
//
// A part that saw no key counts nothing; a NaN stays one. Send sinks with one
// part only. Not for value_channel_mask, nor for what counts or adds up keys
// over the cut: windows in keys, prefix, gates, temperatures by length.
// InvalidArgument says what does not fit.
absl::StatusOr<v1::AttendResponse> MergePartial(
    absl::Span<const v1::AttendResponse> parts);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_MERGE_H_
