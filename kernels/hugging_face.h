// Hugging Face's description of RoPE -> ours.
#ifndef ATTND_KERNELS_HUGGING_FACE_H_
#define ATTND_KERNELS_HUGGING_FACE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/encoding_spec.h"

namespace attnd {

// `rope_parameters` / `rope_scaling` of a model's config.json, keys as they
// stand there, and max_position_embeddings from beside them.
struct HuggingFaceRope {
  // default linear dynamic yarn longrope llama3 proportional; su (an old name
  // of longrope) and mrope (default with sections). `type` is the legacy key.
  // Both absent: default.
  std::string rope_type = {}, type = {};
  std::optional<double> rope_theta = {};  // default 10000
  std::optional<double> factor = {};
  std::optional<double> original_max_position_embeddings = {};
  std::optional<double> max_position_embeddings = {};
  std::optional<double> beta_fast = {}, beta_slow = {};
  std::optional<double> attention_factor = {};
  std::optional<double> mscale = {}, mscale_all_dim = {};
  std::optional<bool> truncate = {};
  std::vector<double> short_factor = {}, long_factor = {};
  std::optional<double> low_freq_factor = {}, high_freq_factor = {};
  std::optional<double> partial_rotary_factor = {};
  std::vector<int> mrope_section = {};
  std::optional<bool> mrope_interleaved = {};
  std::optional<bool> interleaved = {};  // the same, of Qwen3-TTS and -ASR
  std::optional<double> long_mscale = {}, short_mscale = {};  // Phi-3.5-MoE
  std::optional<double> llama_4_scaling_beta = {};            // Ministral
};

// The block that gives the library's frequencies and amplitude, laid half-split
// from the block's first channel on; r = int(channels * partial_rotary_factor).
//
//   factor    yarn, longrope: absent = max_position_embeddings /
//             original_max_position_embeddings. Where it is given it counts.
//   original_max_position_embeddings
//             yarn, longrope: absent = max_position_embeddings. dynamic reads
//             max_position_embeddings alone.
//   yarn's amplitude: attention_factor, else m(mscale) / m(mscale_all_dim) when
//             both are there and not 0, else m(1)
//   longrope's amplitude: attention_factor, or long_mscale and short_mscale,
//             which the model's code puts in its place above and up to the
//             original length; refused unless they are equal
//   llama3    low_freq_factor = high_freq_factor gives a step: the library's
//             formula, which leaves a single wavelength to divide 0 by 0
//
// INVALID_ARGUMENT with `path` and the key: an unknown type (with the known
// ones), keys that are missing (all of them at once), two that contradict each
// other, or one that the type would ignore, so that no setting is dropped
// without a word. Checked against modeling_rope_utils.py of
// transformers 4.48 and 5.
absl::StatusOr<RotaryBlock> RotaryFromHuggingFace(const HuggingFaceRope& rope,
                                                  const std::string& path);

// What llama_4_scaling_beta means: queries times 1 + beta ln(1 + floor(p /
// original_max_position_embeddings)), p the query's position. None without it,
// or where it is 0.
absl::StatusOr<std::optional<QueryTemperature>> TemperatureFromHuggingFace(
    const HuggingFaceRope& rope, const std::string& path);

}  // namespace attnd

#endif  // ATTND_KERNELS_HUGGING_FACE_H_
