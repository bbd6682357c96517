#include "kernels/presets.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"
#include "kernels/generator.h"

namespace attnd {
namespace {

absl::Status CheckEvenDim(const std::string& path, int head_dim) {
  if (head_dim >= 2 && head_dim % 2 == 0) return absl::OkStatus();
  return Refuse(path, absl::StrCat("head_dim ", head_dim),
                "an even number > 0");
}

Drive ClockChannel(int channel) {
  return {.clock = true, .clock_channel = channel};
}

}  // namespace

absl::StatusOr<EncodingSpec> XPos(const XPosPreset& preset, int head_dim) {
  absl::Status status = CheckEvenDim("preset.xpos", head_dim);
  if (status.ok()) status = CheckPositive("preset.xpos.base", preset.base);
  if (status.ok()) {
    status = CheckPositive("preset.xpos.scale_base", preset.scale_base);
  }
  if (status.ok()) status = CheckPositive("preset.xpos.gamma", preset.gamma);
  if (!status.ok()) return status;
  DampedRotationBlock block{.layout = preset.layout};
  for (int j = 0; j < head_dim / 2; ++j) {
    const double zeta =
        (2.0 * j / head_dim + preset.gamma) / (1 + preset.gamma);
    block.frequencies.push_back(std::pow(preset.base, -2.0 * j / head_dim));
    block.rates.push_back(-std::log(zeta) / preset.scale_base);
  }
  EncodingSpec spec;
  spec.blocks = {std::move(block)};
  return spec;
}

absl::StatusOr<EncodingSpec> RetNet(const RetNetPreset& preset, int head_dim,
                                    int kv_heads) {
  absl::Status status = CheckEvenDim("preset.retnet", head_dim);
  if (status.ok()) status = CheckPositive("preset.retnet.base", preset.base);
  if (!status.ok()) return status;
  const int planes = head_dim / 2;
  DampedRotationBlock block{.layout = preset.layout};
  for (int j = 0; j < planes; ++j) {
    const double exponent =
        planes == 1 ? 0 : static_cast<double>(j) / (planes - 1);
    block.frequencies.push_back(std::pow(preset.base, -exponent));
  }
  EncodingSpec spec;
  for (int h = 0; h < kv_heads; ++h) {
    block.rates = {-std::log1p(-std::exp2(-5 - h))};
    spec.per_head.push_back({block});
  }
  return spec;
}

EncodingSpec Fox(bool per_unit) {
  EncodingSpec spec;
  spec.biases = {CumulativeGateTerm{.per_unit = per_unit}};
  return spec;
}

absl::StatusOr<EncodingSpec> Gla(int head_dim) {
  if (head_dim < 1) {
    return Refuse("preset.gla", absl::StrCat("head_dim ", head_dim), ">= 1");
  }
  EncodingSpec spec;
  for (int c = 0; c < head_dim; ++c) {
    spec.blocks.emplace_back(DecayBlock{.rates = {1}, .width = 1},
                             ClockChannel(c));
  }
  return spec;
}

EncodingSpec Mamba2() {
  EncodingSpec spec;
  spec.blocks = {Block(DecayBlock{.rates = {1}}, ClockChannel(0))};
  return spec;
}

absl::StatusOr<EncodingSpec> Mamba3(int head_dim, double rope_fraction) {
  if (rope_fraction != 0.5 && rope_fraction != 1) {
    return Refuse("preset.mamba3.rope_fraction", rope_fraction, "0.5 or 1");
  }
  const int turning = static_cast<int>(head_dim * rope_fraction);
  absl::Status status = CheckEvenDim("preset.mamba3", turning);
  if (!status.ok()) return status;
  EncodingSpec spec;
  for (int j = 0; j < turning / 2; ++j) {
    spec.blocks.emplace_back(
        DampedRotationBlock{.frequencies = {1},
                            .rates = {1},
                            .layout = PairLayout::kInterleaved,
                            .decay_drive = ClockChannel(0)},
        ClockChannel(1 + j));
  }
  if (turning < head_dim) {
    spec.blocks.emplace_back(DecayBlock{.rates = {1}}, ClockChannel(0));
  }
  return spec;
}

absl::StatusOr<EncodingSpec> SelectiveRope(int head_dim, PairLayout layout) {
  absl::Status status = CheckEvenDim("preset.selective_rope", head_dim);
  if (!status.ok()) return status;
  // Frequency vectors of ones in the diagonal: plane j sees channel j alone.
  const int planes = head_dim / 2;
  RotationBlock block{.layout = layout, .coordinates = planes};
  block.frequencies.resize(static_cast<size_t>(planes) * planes);
  for (int j = 0; j < planes; ++j) block.frequencies[j * planes + j] = 1;
  EncodingSpec spec;
  spec.blocks = {Block(std::move(block), ClockChannel(0))};
  return spec;
}

absl::StatusOr<EncodingSpec> AugmentedAlibi(const std::vector<double>& slopes,
                                            int head_dim, int kv_heads) {
  const std::string path = "preset.augmented_alibi";
  if (head_dim < 2) {
    return Refuse(path, absl::StrCat("head_dim ", head_dim), ">= 2");
  }
  if (slopes.size() > 1 && slopes.size() != static_cast<size_t>(kv_heads)) {
    return Refuse(path + ".slopes", absl::StrCat(slopes.size(), " slopes"),
                  absl::StrCat("none, 1 or one per kv head (", kv_heads, ")"));
  }
  absl::Status status = CheckNoneNegative(path + ".slopes", slopes);
  if (!status.ok()) return status;
  const std::vector<double> published = PublishedSlopes(kv_heads);
  EncodingSpec spec;
  for (int h = 0; h < kv_heads; ++h) {
    const double slope = slopes.empty()       ? published[h]
                         : slopes.size() == 1 ? slopes[0]
                                              : slopes[h];
    std::vector<Block> blocks;
    if (head_dim > 2) blocks.push_back(IdentityBlock{.width = head_dim - 2});
    if (slope > 0) {
      blocks.push_back(RealJordanBlock{
          .size = 2, .rates = {0}, .tau = 1 / slope, .chains = 1});
    }
    spec.per_head.push_back(std::move(blocks));
  }
  return spec;
}

absl::StatusOr<EncodingSpec> LieRe(int tile, int coordinates,
                                   const std::vector<double>& generators,
                                   int head_dim) {
  const std::string path = "preset.liere";
  if (tile < 2 || head_dim % tile != 0) {
    return Refuse(path + ".tile", tile,
                  absl::StrCat("at least 2, dividing head_dim ", head_dim));
  }
  if (coordinates < 1) {
    return Refuse(path + ".coordinates", coordinates, ">= 1");
  }
  const size_t triangle = static_cast<size_t>(tile) * (tile - 1) / 2;
  const size_t tiles = head_dim / tile;
  const size_t one = coordinates * triangle;
  if (generators.size() != one && generators.size() != one * tiles) {
    return Refuse(path + ".generators",
                  absl::StrCat(generators.size(), " entries"),
                  absl::StrCat(one, " (", coordinates, " coordinates * ",
                               triangle, "), or that times ", tiles, " tiles"));
  }
  const size_t given = generators.size() / one;
  EncodingSpec spec;
  for (size_t i = 0; i < tiles; ++i) {
    LieReBlock block{.dim = tile, .coordinates = coordinates};
    for (int a = 0; a < coordinates; ++a) {
      const auto begin =
          generators.begin() + (a * given + i % given) * triangle;
      block.generators.insert(block.generators.end(), begin, begin + triangle);
    }
    spec.blocks.push_back(std::move(block));
  }
  return spec;
}

}  // namespace attnd
