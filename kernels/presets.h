// Named families of the literature as encodings, with their published
// parameters.
//
// Sizes are those of the request's tensors; time units and names are the
// caller's to add. INVALID_ARGUMENT where a number does not fit the sizes.
//
// Clocks: "channel c" is channel c of the request's learned clock
// [B,H,L,channels], whose differences take the place of the lag. A clock never
// decreases where it drives a decay.
#ifndef ATTND_KERNELS_PRESETS_H_
#define ATTND_KERNELS_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// xPos (Sun et al. 2022): RoPE whose plane j decays by zeta_j^(D / scale_base),
// zeta_j = (2j/d + gamma) / (1 + gamma).
struct XPosPreset {
  double base = 10000;
  double scale_base = 512;
  double gamma = 0.4;
  PairLayout layout = PairLayout::kInterleaved;
};
absl::StatusOr<EncodingSpec> XPos(const XPosPreset& preset, int head_dim);

// RetNet (Sun et al. 2023): head h decays by gamma_h = 1 - 2^(-5-h) per unit;
// angles base^(-j/(d/2-1)), both ends included. For the linear kind.
struct RetNetPreset {
  double base = 10000;
  PairLayout layout = PairLayout::kInterleaved;
};
absl::StatusOr<EncodingSpec> RetNet(const RetNetPreset& preset, int head_dim,
                                    int kv_heads);

// Forgetting attention (Lin et al. 2025): a cumulative gate alone.
EncodingSpec Fox(bool per_unit = false);

// GLA (Yang et al. 2023): channel c of the head decays along clock channel c,
// the cumulative sum of its -log gates.
absl::StatusOr<EncodingSpec> Gla(int head_dim);

// Mamba-2 (Dao and Gu 2024): all channels decay along clock channel 0, the
// cumulative sum of dt * |A|.
EncodingSpec Mamba2();

// Mamba-3: the first rope_fraction (0.5 or 1) of the channels turn, in
// neighbouring pairs, plane j along clock channel 1 + j (cumulative phase in
// rad); all decay along clock channel 0, as in Mamba-2.
absl::StatusOr<EncodingSpec> Mamba3(int head_dim, double rope_fraction = 1);

// Selective RoPE: plane j turns along clock channel j (cumulative phase in
// rad).
absl::StatusOr<EncodingSpec> SelectiveRope(int head_dim, PairLayout layout);

// ALiBi by the 2x2 nilpotent generator: the last two channels of the head hold
// (1/scale, 0) in every query and (0, -1) in every key and give -slope * D; the
// others see no time. Slopes per kv head, one for all, or none: the published.
absl::StatusOr<EncodingSpec> AugmentedAlibi(const std::vector<double>& slopes,
                                            int head_dim, int kv_heads);

// LieRE: tiles of `tile` channels turned by exp(sum_a p_a A_a). `generators`
// holds the strictly lower triangles of the skew A_a, row by row: [coordinates,
// tiles, tile (tile - 1) / 2], tiles = 1 (for all) or head_dim / tile. Relative
// with one coordinate, or with tiles of 2.
absl::StatusOr<EncodingSpec> LieRe(int tile, int coordinates,
                                   const std::vector<double>& generators,
                                   int head_dim);

}  // namespace attnd

#endif  // ATTND_KERNELS_PRESETS_H_
