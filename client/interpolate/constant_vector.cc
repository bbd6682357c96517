#include "client/interpolate/constant_vector.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace attnd::client {
namespace {

std::vector<const v1::ResolvedBlock*> TimedBlocks(
    const v1::ResolvedEncoding& encoding) {
  std::vector<const v1::ResolvedBlock*> blocks;
  if (encoding.generators().empty()) return blocks;
  for (const v1::ResolvedBlock& block : encoding.generators(0).blocks()) {
    if (block.kind() != "identity" && !block.channels().empty()) {
      blocks.push_back(&block);
    }
  }
  return blocks;
}

}  // namespace

int CountTimedBlocks(const v1::ResolvedEncoding& encoding) {
  return static_cast<int>(TimedBlocks(encoding).size());
}

std::vector<double> DefaultWeights(int count) {
  std::vector<double> weights;
  for (int i = 0; i < count; ++i) weights.push_back(std::ldexp(8.0, -i));
  return weights;
}

absl::StatusOr<std::vector<float>> ConstantVector(
    const v1::ResolvedEncoding& encoding, absl::Span<const double> weights) {
  const std::vector<const v1::ResolvedBlock*> blocks = TimedBlocks(encoding);
  if (blocks.size() != weights.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("encoding '", encoding.name(), "' has ", blocks.size(),
                     " planes, but ", weights.size(), " weights are given"));
  }
  std::vector<float> vector(encoding.head_dim(), 0.0f);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!(weights[i] >= 0) || std::isinf(weights[i])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "plane weight ", weights[i], ", expected a finite number >= 0"));
    }
    const int channel = blocks[i]->channels(0);
    if (channel < 0 || channel >= encoding.head_dim()) {
      return absl::InternalError(absl::StrCat(
          "encoding '", encoding.name(), "': the server names channel ",
          channel, " of ", encoding.head_dim()));
    }
    vector[channel] = static_cast<float>(std::sqrt(weights[i]));
  }
  return vector;
}

}  // namespace attnd::client
