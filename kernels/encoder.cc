#include "kernels/encoder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/encoder_builder.h"

namespace attnd {
namespace {

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

const HeadEncoder::ChainGroup& HeadEncoder::group_of(int chain) const {
  size_t g = 0;
  while (chain >= chain_groups_[g].factor_offset + chain_groups_[g].count) ++g;
  return chain_groups_[g];
}

int HeadEncoder::half_split_planes() const {
  if (!order_.empty() || !query_basis_.empty() || !key_basis_.empty() ||
      !scale_.empty() || pairwise() || !free_turns_.empty() ||
      plane_groups_.size() > 1) {
    return -1;
  }
  if (plane_groups_.empty()) return common_scale_ == 1 ? 0 : -1;
  const PlaneGroup& group = plane_groups_[0];
  const bool halves = group.layout == PairLayout::kHalfSplit &&
                      group.first == 0 && group.distance == group.planes &&
                      group.table_offset == 0;
  return halves ? group.planes : -1;
}

bool HeadEncoder::identity() const {
  return order_.empty() && query_basis_.empty() && scale_.empty() &&
         common_scale_ == 1 && plane_groups_.empty() && free_turns_.empty() &&
         !one_sided() && !pairwise();
}

absl::Status Encoder::CompileHeads(const std::atomic<bool>* stop) {
  const EncodingSpec& spec = spec_;
  const EncoderSizes& sizes = sizes_;
  if (!spec.per_head.empty() &&
      static_cast<int>(spec.per_head.size()) != sizes.kv_heads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "per_head: ", spec.per_head.size(),
        " generators, expected one per kv head (", sizes.kv_heads, ")"));
  }
  const size_t heads = std::max<size_t>(1, spec.per_head.size());
  for (size_t h = 0; h < heads; ++h) {
    absl::StatusOr<Generator> generator = Generator::Make(
        spec.per_head.empty() ? spec.blocks : spec.per_head[h], sizes.head_dim,
        static_cast<double>(sizes.length), spec.basis, stop);
    if (!generator.ok()) return generator.status();
    if (generator->one_sided() && !spec.absolute_lag) one_sided_ = true;
    if (generator->length_dependent()) length_dependent_ = true;
    heads_.push_back(LayOutHead(*this, *std::move(generator)));
  }
  return absl::OkStatus();
}

absl::Status Encoder::CompileBiases() {
  for (size_t i = 0; i < spec_.biases.size(); ++i) {
    const auto* term = std::get_if<AlibiTerm>(&spec_.biases[i]);
    if (term == nullptr) continue;
    absl::StatusOr<std::vector<double>> slopes =
        HeadSlopes(*term, absl::StrCat("biases[", i, "]"), sizes_.query_heads);
    if (!slopes.ok()) return slopes.status();
    slopes_.resize(sizes_.query_heads, 0.0);
    for (int h = 0; h < sizes_.query_heads; ++h) {
      slopes_[h] += (*slopes)[h];
    }
    if (!term->two_sided && !spec_.absolute_lag) one_sided_ = true;
  }
  absl::StatusOr<std::shared_ptr<const Absolute>> absolute = Absolute::Compile(
      spec_.absolutes, sizes_.head_dim, sizes_.kv_heads, ratio_);
  if (!absolute.ok()) return absolute.status();
  absolute_ = *std::move(absolute);
  const std::vector<BiasTerm>& terms = spec_.biases;
  absl::StatusOr<std::shared_ptr<const LagBias>> lag_bias =
      LagBias::Compile(terms, sizes_.query_heads, ratio_);
  if (!lag_bias.ok()) return lag_bias.status();
  lag_bias_ = *std::move(lag_bias);
  absl::StatusOr<EndpointBias> endpoint_bias =
      EndpointBias::Compile(terms, sizes_.query_heads, sizes_.head_dim, ratio_);
  if (!endpoint_bias.ok()) return endpoint_bias.status();
  endpoint_bias_ = *std::move(endpoint_bias);
  gate_weights_ = SumGateWeights(terms, ratio_);
  // Gates and GRAPE slopes push the future up: defined for lag >= 0 only.
  if (gate_weights_.any() && !spec_.absolute_lag) {
    one_sided_ = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Encoder>> Encoder::Compile(
    const EncodingSpec& spec, const EncoderSizes& sizes, const TickRatio& ratio,
    const std::vector<TickRatio>& further, const std::atomic<bool>* stop) {
  if (absl::Status status = Validate(spec, stop); !status.ok()) return status;
  std::shared_ptr<Encoder> encoder(new Encoder);
  encoder->spec_ = spec;
  if (spec.hf_fp32_angles) {
    const auto round = [](std::vector<Block>& blocks) {
      for (Block& block : blocks) {
        auto* rotary = std::get_if<RotaryBlock>(&block.kind);
        if (rotary != nullptr) rotary->float_powers = true;
      }
    };
    round(encoder->spec_.blocks);
    for (auto& blocks : encoder->spec_.per_head) round(blocks);
  }
  encoder->sizes_ = sizes;
  encoder->ratio_ = ratio;
  encoder->further_ = further;
  if (absl::Status status = encoder->CompileHeads(stop); !status.ok()) {
    return status;
  }
  if (absl::Status status = encoder->CompileBiases(); !status.ok()) {
    return status;
  }
  return encoder;
}

TickRatio Encoder::RatioOf(const Drive& drive) const {
  if (drive.clock) return {};
  if (drive.coordinate == 0) return ratio_;
  const auto further = static_cast<size_t>(drive.coordinate - 1);
  if (further < further_.size()) return further_[further];
  TickRatio ratio = ratio_;
  if (further < spec_.coordinate_unit_ns.size()) {
    ratio.unit_ns = spec_.coordinate_unit_ns[further];
  }
  return ratio;
}

bool Encoder::uses_clock() const { return clock_channels() > 0; }

int Encoder::clock_channels() const {
  int channels = 0;
  for (const Drive& drive : sources_) {
    if (drive.clock) channels = std::max(channels, drive.clock_channel + 1);
  }
  return channels;
}

int Encoder::coordinates() const {
  int count = 1;
  for (const Drive& drive : sources_) {
    if (!drive.clock) count = std::max(count, drive.coordinate + 1);
  }
  return count;
}

}  // namespace attnd
