// ReadRotary of block_reader.h.
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernels/hugging_face.h"
#include "server/block_reader.h"

namespace attnd::server {
namespace {

template <typename T, typename Field>
std::vector<T> List(const Field& field) {
  return {field.begin(), field.end()};
}

// Each of these would be read only beside or without others. A block of
// Hugging Face's keeps them, as the library does.
void CheckYarn(const v1::Yarn& in, const std::string& path,
               Violations& violations) {
  const auto add = [&](bool wrong, const char* field, const char* why) {
    if (wrong) violations.Add(path + field, why);
  };
  add(in.has_mscale() && !in.has_mscale_all_dim(), ".mscale",
      "is read beside mscale_all_dim alone, of which it is the numerator; add "
      "that, or write attention_factor");
  add(in.has_mscale_all_dim() && !in.has_mscale(), ".mscale_all_dim",
      "is read beside mscale alone, which it divides; add that, or write "
      "attention_factor");
  for (const auto& [given, value, field] :
       {std::tuple(in.has_mscale(), in.mscale(), ".mscale"),
        std::tuple(in.has_mscale_all_dim(), in.mscale_all_dim(),
                   ".mscale_all_dim")}) {
    add(given && in.has_attention_factor(), field,
        "given beside attention_factor, which takes its place; leave one of "
        "them out");
    add(given && value == 0, field, "0, expected finite and > 0");
  }
  add(in.has_truncate() && in.ramp() == v1::Yarn::RAMP_PAPER, ".truncate",
      "rounds the borders of the ramp of code, but ramp is paper; leave it "
      "out");
}

YarnScaling ReadYarn(const v1::Yarn& in) {
  YarnScaling out;
  out.factor = in.factor();
  out.original_length = in.original_length();
  if (in.has_beta_fast()) out.beta_fast = in.beta_fast();
  if (in.has_beta_slow()) out.beta_slow = in.beta_slow();
  if (in.has_attention_factor()) out.attention_factor = in.attention_factor();
  if (in.has_mscale()) out.mscale = in.mscale();
  if (in.has_mscale_all_dim()) out.mscale_all_dim = in.mscale_all_dim();
  if (in.has_truncate()) out.truncate = in.truncate();
  out.paper_ramp = in.ramp() == v1::Yarn::RAMP_PAPER;
  return out;
}

LongRopeScaling ReadLongRope(const v1::LongRope& in) {
  LongRopeScaling out;
  out.short_factor = List<double>(in.short_factor());
  out.long_factor = List<double>(in.long_factor());
  out.original_length = in.original_length();
  out.factor = in.factor();
  if (in.has_attention_factor()) out.attention_factor = in.attention_factor();
  return out;
}

Llama3Scaling ReadLlama3(const v1::Llama3Scaling& in) {
  Llama3Scaling out;
  if (in.has_factor()) out.factor = in.factor();
  if (in.has_low_freq_factor()) out.low_freq_factor = in.low_freq_factor();
  if (in.has_high_freq_factor()) out.high_freq_factor = in.high_freq_factor();
  if (in.has_original_length()) out.original_length = in.original_length();
  return out;
}

RotaryScaling ReadScaling(const v1::Rotary& in) {
  switch (in.scaling_case()) {
    case v1::Rotary::kLinear:
      return LinearScaling{.factor = in.linear().factor()};
    case v1::Rotary::kNtk:
      return NtkScaling{.factor = in.ntk().factor()};
    case v1::Rotary::kDynamicNtk:
      return DynamicNtkScaling{
          .factor = in.dynamic_ntk().factor(),
          .original_length = in.dynamic_ntk().original_length()};
    case v1::Rotary::kYarn:
      return ReadYarn(in.yarn());
    case v1::Rotary::kLongrope:
      return ReadLongRope(in.longrope());
    case v1::Rotary::kLlama3:
      return ReadLlama3(in.llama3());
    case v1::Rotary::kProportional:
      return ProportionalScaling{.fraction = in.proportional().fraction(),
                                 .factor = in.proportional().has_factor()
                                               ? in.proportional().factor()
                                               : 1};
    default:
      return {};
  }
}

HuggingFaceRope ReadHuggingFace(const v1::HuggingFaceRope& in) {
  HuggingFaceRope out;
  out.rope_type = in.rope_type();
  out.type = in.type();
  if (in.has_rope_theta()) out.rope_theta = in.rope_theta();
  if (in.has_factor()) out.factor = in.factor();
  if (in.has_original_max_position_embeddings()) {
    out.original_max_position_embeddings =
        in.original_max_position_embeddings();
  }
  if (in.has_max_position_embeddings()) {
    out.max_position_embeddings = in.max_position_embeddings();
  }
  if (in.has_beta_fast()) out.beta_fast = in.beta_fast();
  if (in.has_beta_slow()) out.beta_slow = in.beta_slow();
  if (in.has_attention_factor()) out.attention_factor = in.attention_factor();
  if (in.has_mscale()) out.mscale = in.mscale();
  if (in.has_mscale_all_dim()) out.mscale_all_dim = in.mscale_all_dim();
  if (in.has_truncate()) out.truncate = in.truncate();
  out.short_factor = List<double>(in.short_factor());
  out.long_factor = List<double>(in.long_factor());
  if (in.has_low_freq_factor()) out.low_freq_factor = in.low_freq_factor();
  if (in.has_high_freq_factor()) out.high_freq_factor = in.high_freq_factor();
  if (in.has_partial_rotary_factor()) {
    out.partial_rotary_factor = in.partial_rotary_factor();
  }
  out.mrope_section = List<int>(in.mrope_section());
  if (in.has_mrope_interleaved())
    out.mrope_interleaved = in.mrope_interleaved();
  if (in.has_interleaved()) out.interleaved = in.interleaved();
  if (in.has_long_mscale()) out.long_mscale = in.long_mscale();
  if (in.has_short_mscale()) out.short_mscale = in.short_mscale();
  if (in.has_llama_4_scaling_beta()) {
    out.llama_4_scaling_beta = in.llama_4_scaling_beta();
  }
  return out;
}

void ReadAxes(const v1::AxisSections& in, const std::string& path,
              AxisSections& out, Violations& violations) {
  out.sections = List<int>(in.sections());
  if (in.sections().empty()) {
    violations.Add(path + ".sections",
                   "required: planes per coordinate; leave axes out where all "
                   "follow one");
  }
  switch (in.order()) {
    case v1::AxisSections::ORDER_CONTIGUOUS:
      out.order = AxisSections::Order::kContiguous;
      return;
    case v1::AxisSections::ORDER_INTERLEAVED:
      out.order = AxisSections::Order::kInterleaved;
      return;
    case v1::AxisSections::ORDER_AXIAL:
      out.order = AxisSections::Order::kAxial;
      return;
    default:
      violations.Add(path + ".order",
                     "required: contiguous (Qwen2-VL), interleaved (Qwen3-VL) "
                     "or axial; a wrong order is silently wrong");
  }
}

bool IsHuggingFace(const v1::Rotary& in) {
  return in.has_rope_parameters() || in.has_rope_scaling();
}

const v1::HuggingFaceRope& HuggingFaceOf(const v1::Rotary& in) {
  return in.has_rope_parameters() ? in.rope_parameters() : in.rope_scaling();
}

std::string HuggingFacePath(const v1::Rotary& in, const std::string& path) {
  return path +
         (in.has_rope_parameters() ? ".rope_parameters" : ".rope_scaling");
}

}  // namespace

std::optional<QueryTemperature> ReadRopeTemperature(const v1::Rotary& in,
                                                    const std::string& path,
                                                    Violations& violations) {
  if (!IsHuggingFace(in)) return std::nullopt;
  const std::string field = HuggingFacePath(in, path);
  absl::StatusOr<std::optional<QueryTemperature>> temperature =
      TemperatureFromHuggingFace(ReadHuggingFace(HuggingFaceOf(in)), field);
  if (temperature.ok()) return *temperature;
  violations.AddStatus(temperature.status(), "", field);
  return std::nullopt;
}

std::optional<RotaryBlock> ReadRotary(const v1::Rotary& in,
                                      const std::string& path,
                                      Violations& violations) {
  if (IsHuggingFace(in)) {
    const std::string field = HuggingFacePath(in, path);
    if (in.pair_layout() == v1::PAIR_LAYOUT_INTERLEAVED) {
      violations.Add(path + ".pair_layout",
                     "interleaved, but Hugging Face blocks imply half_split");
    }
    HuggingFaceRope rope = ReadHuggingFace(HuggingFaceOf(in));
    if (in.has_base() && rope.rope_theta.value_or(in.base()) != in.base()) {
      violations.Add(path + ".base",
                     absl::StrCat(in.base(), ", but ", field, ".rope_theta is ",
                                  *rope.rope_theta, "; leave one of them out"));
    }
    if (in.has_base()) rope.rope_theta = in.base();
    absl::StatusOr<RotaryBlock> block = RotaryFromHuggingFace(rope, field);
    if (!block.ok()) {
      violations.AddStatus(block.status(), "", field);
      return std::nullopt;
    }
    if (in.rotary_dim() != 0) block->rotary_dim = in.rotary_dim();
    if (in.has_axes() && !block->axes.sections.empty()) {
      violations.Add(path + ".axes",
                     absl::StrCat("given beside ", field,
                                  ".mrope_section; leave one of them out"));
    } else if (in.has_axes()) {
      ReadAxes(in.axes(), path + ".axes", block->axes, violations);
    }
    return *block;
  }
  if (in.has_yarn()) CheckYarn(in.yarn(), path + ".yarn", violations);
  if (in.longrope().has_attention_factor() && in.longrope().factor() != 0) {
    violations.Add(path + ".longrope.factor",
                   "given beside attention_factor, which takes its place; "
                   "leave one of them out");
  }
  RotaryBlock block;
  if (in.has_base()) block.base = in.base();
  block.rotary_dim = in.rotary_dim();
  block.layout = ReadLayout(in.pair_layout(), path, violations);
  block.scaling = ReadScaling(in);
  if (in.has_axes())
    ReadAxes(in.axes(), path + ".axes", block.axes, violations);
  return block;
}

}  // namespace attnd::server
