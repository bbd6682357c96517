// The one query and key vector of an average whose weights depend on time
// alone.
#ifndef ATTND_CLIENT_INTERPOLATE_CONSTANT_VECTOR_H_
#define ATTND_CLIENT_INTERPOLATE_CONSTANT_VECTOR_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attnd/v1/encoding.pb.h"

namespace attnd::client {

// How many blocks of the encoding see the time: rotation planes, decays and so
// on; for each a weight can be chosen.
int CountTimedBlocks(const v1::ResolvedEncoding& encoding);

// The weights used when none are given: 8, 4, 2, ... for `count` blocks.
std::vector<double> DefaultWeights(int count);

// Used as every query and every key, with scale 1, it makes the logit of a pair
// at lag D
//
//   sum over blocks of weight * A(D)[first channel, first channel]
//
// plus the encoding's biases: weight * cos(2 pi D / period) for a rotation
// plane, weight * e^{-rate D} for a decay. It holds sqrt(weight) in the first
// channel of each block, and 0 elsewhere.
//
//   encoding   resolved; one generator for all heads
//   weights    one per timed block in channel order, each >= 0 and finite
//
// Has head_dim entries. InvalidArgument when counts differ, naming both.
absl::StatusOr<std::vector<float>> ConstantVector(
    const v1::ResolvedEncoding& encoding, absl::Span<const double> weights);

}  // namespace attnd::client

#endif  // ATTND_CLIENT_INTERPOLATE_CONSTANT_VECTOR_H_
