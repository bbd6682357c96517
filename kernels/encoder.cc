#include "kernels/encoder.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attnd {
namespace {

// Cuts planes into runs that one vector loop can walk.
std::vector<Encoder::PlaneGroup> GroupPlanes(const std::vector<Plane>& planes) {
  std::vector<Encoder::PlaneGroup> groups;
  const int count = static_cast<int>(planes.size());
  for (int begin = 0; begin < count;) {
    const int distance = planes[begin].second - planes[begin].first;
    const int step = distance == 1 && begin + 1 < count &&
                             planes[begin + 1].first == planes[begin].first + 2
                         ? 2
                         : 1;
    int end = begin + 1;
    while (end < count && planes[end].first == planes[end - 1].first + step &&
           planes[end].second - planes[end].first == distance) {
      ++end;
    }
    // A lone pair of neighbours reads the same in both layouts.
    const bool interleaved = distance == 1;
    groups.push_back({.first_channel = planes[begin].first,
                      .planes = end - begin,
                      .distance = interleaved ? 0 : distance,
                      .layout = interleaved ? PairLayout::kInterleaved
                                            : PairLayout::kHalfSplit,
                      .table_offset = begin});
    begin = end;
  }
  return groups;
}

absl::StatusOr<std::vector<double>> HeadSlopes(const AlibiTerm& term,
                                               const std::string& path,
                                               int heads) {
  if (term.slopes.empty()) return PublishedSlopes(heads, term.bias_max);
  if (term.slopes.size() == 1) {
    return std::vector<double>(heads, term.slopes[0]);
  }
  if (static_cast<int>(term.slopes.size()) != heads) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ".alibi.slopes: ", term.slopes.size(),
        " slopes, expected 1 or one per query head (", heads, ")"));
  }
  return term.slopes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Encoder>> Encoder::Compile(
    const EncodingSpec& spec, const EncoderSizes& sizes,
    const TickRatio& ratio) {
  if (absl::Status status = Validate(spec); !status.ok()) return status;
  absl::StatusOr<Generator> generator =
      Generator::Make(spec.blocks, sizes.head_dim);
  if (!generator.ok()) return generator.status();

  std::shared_ptr<Encoder> encoder(new Encoder);
  encoder->sizes_ = sizes;
  encoder->ratio_ = ratio;
  encoder->generator_ = *std::move(generator);
  encoder->groups_ = GroupPlanes(encoder->generator_.planes());
  for (const Plane& plane : encoder->generator_.planes()) {
    const TurnFrequency turns = MakeTurnFrequency(plane.omega, ratio);
    encoder->frequencies_hi_.push_back(turns.hi);
    encoder->frequencies_lo_.push_back(turns.lo);
    encoder->whole_turns_.push_back(turns.whole);
  }
  const size_t padded = (encoder->frequencies_hi_.size() + 15) / 16 * 16;
  encoder->frequencies_hi_.resize(padded);
  encoder->frequencies_lo_.resize(padded);
  encoder->whole_turns_.resize(padded);
  for (size_t i = 0; i < spec.biases.size(); ++i) {
    const auto& term = std::get<AlibiTerm>(spec.biases[i]);
    absl::StatusOr<std::vector<double>> slopes =
        HeadSlopes(term, absl::StrCat("biases[", i, "]"), sizes.query_heads);
    if (!slopes.ok()) return slopes.status();
    encoder->slopes_.resize(sizes.query_heads, 0.0);
    for (int h = 0; h < sizes.query_heads; ++h) {
      encoder->slopes_[h] += (*slopes)[h];
    }
    if (!term.two_sided && !spec.absolute_lag) encoder->one_sided_ = true;
  }
  return encoder;
}

}  // namespace attnd
