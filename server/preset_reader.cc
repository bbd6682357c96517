// SpecFor of named_encoding.h: presets become blocks and biases once sizes are
// known.
#include "kernels/presets.h"
#include "server/block_reader.h"
#include "server/named_encoding.h"

namespace attnd::server {
namespace {

absl::StatusOr<EncodingSpec> Expand(const v1::Preset& preset,
                                    const EncoderSizes& sizes) {
  const auto layout = [](v1::PairLayout in) {
    return in == v1::PAIR_LAYOUT_HALF_SPLIT ? PairLayout::kHalfSplit
                                            : PairLayout::kInterleaved;
  };
  switch (preset.kind_case()) {
    case v1::Preset::kXpos: {
      XPosPreset xpos;
      if (preset.xpos().has_base()) xpos.base = preset.xpos().base();
      if (preset.xpos().has_scale_base()) {
        xpos.scale_base = preset.xpos().scale_base();
      }
      if (preset.xpos().has_gamma()) xpos.gamma = preset.xpos().gamma();
      xpos.layout = layout(preset.xpos().pair_layout());
      return XPos(xpos, sizes.head_dim);
    }
    case v1::Preset::kRetnet: {
      RetNetPreset retnet;
      if (preset.retnet().has_base()) retnet.base = preset.retnet().base();
      retnet.layout = layout(preset.retnet().pair_layout());
      return RetNet(retnet, sizes.head_dim, sizes.kv_heads);
    }
    case v1::Preset::kFox:
      return Fox(preset.fox().per_unit());
    case v1::Preset::kGla:
      return Gla(sizes.head_dim);
    case v1::Preset::kMamba2:
      return Mamba2();
    case v1::Preset::kMamba3:
      return Mamba3(sizes.head_dim, preset.mamba3().has_rope_fraction()
                                        ? preset.mamba3().rope_fraction()
                                        : 1);
    case v1::Preset::kSelectiveRope:
      return SelectiveRope(sizes.head_dim,
                           layout(preset.selective_rope().pair_layout()));
    case v1::Preset::kAugmentedAlibi:
      return AugmentedAlibi({preset.augmented_alibi().slopes().begin(),
                             preset.augmented_alibi().slopes().end()},
                            sizes.head_dim, sizes.kv_heads);
    case v1::Preset::kLiere:
      return LieRe(
          preset.liere().tile(),
          preset.liere().has_coordinates() ? preset.liere().coordinates() : 1,
          {preset.liere().generators().begin(),
           preset.liere().generators().end()},
          sizes.head_dim);
    case v1::Preset::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("preset: names no kind of preset");
}

}  // namespace

absl::StatusOr<EncodingSpec> SpecFor(const NamedEncoding& encoding,
                                     const EncoderSizes& sizes) {
  EncodingSpec spec = encoding.spec;
  if (!encoding.definition.has_preset()) return spec;
  absl::StatusOr<EncodingSpec> preset =
      Expand(encoding.definition.preset(), sizes);
  if (!preset.ok()) return preset.status();
  spec.blocks = preset->blocks;
  spec.per_head = preset->per_head;
  if (spec.basis.empty()) spec.basis = preset->basis;
  spec.biases.insert(spec.biases.begin(), preset->biases.begin(),
                     preset->biases.end());
  return spec;
}

}  // namespace attnd::server
