#include "server/named_encoding.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/hash.h"

namespace attnd::server {
namespace {

// Reads one encoding; `path` of every method is that of its message, with the
// prefix of the encoding.
class Reader {
 public:
  Reader(absl::string_view prefix, Violations& violations)
      : prefix_(prefix), violations_(violations) {}

  void Read(const v1::Encoding& in, EncodingSpec& spec);

 private:
  void FindUnserved(const v1::Encoding& in);
  void ReadRules(const v1::Encoding& in, EncodingSpec& spec);
  std::optional<Block> ReadBlock(const v1::Block& in, const std::string& path);
  std::optional<Block> ReadRotary(const v1::Rotary& in,
                                  const std::string& path);
  std::optional<Block> ReadRotation(const v1::Rotation& in,
                                    const std::string& path);
  std::optional<BiasTerm> ReadBias(const v1::Bias& in, const std::string& path);
  PairLayout ReadLayout(v1::PairLayout in, const std::string& path);

  std::string Path(absl::string_view field, int index) const {
    return absl::StrCat(prefix_, field, "[", index, "]");
  }

  const std::string prefix_;
  Violations& violations_;
};

void Reader::FindUnserved(const v1::Encoding& in) {
  const std::pair<bool, absl::string_view> unserved[] = {
      {in.per_head_size() > 0, "per_head"},
      {in.absolutes_size() > 0, "absolutes"},
      {in.has_basis(), "basis"},
      {in.has_query_temperature(), "query_temperature"},
      {in.coordinate_units_size() > 0, "coordinate_units"},
      {in.has_preset(), "preset"},
      {in.angle_precision() == v1::ANGLE_PRECISION_HF_FP32, "angle_precision"},
  };
  for (const auto& [present, field] : unserved) {
    if (present) violations_.AddUnserved(absl::StrCat(prefix_, field));
  }
}

void Reader::ReadRules(const v1::Encoding& in, EncodingSpec& spec) {
  if (!v1::TwoSidedRule_IsValid(in.two_sided())) {
    violations_.Add(prefix_ + "two_sided",
                    absl::StrCat("unknown value ", in.two_sided()));
  }
  if (!v1::AnglePrecision_IsValid(in.angle_precision())) {
    violations_.Add(prefix_ + "angle_precision",
                    absl::StrCat("unknown value ", in.angle_precision()));
  }
  spec.absolute_lag = in.two_sided() == v1::TWO_SIDED_RULE_ABSOLUTE_LAG;

  const bool has_parts = in.blocks_size() > 0 || in.per_head_size() > 0 ||
                         in.biases_size() > 0 || in.absolutes_size() > 0 ||
                         in.has_preset();
  if (in.time_unit().empty()) {
    if (has_parts) {
      violations_.Add(prefix_ + "time_unit",
                      "required, there is no default: the length of one unit "
                      "(\"1s\", \"365.25d\") or \"position\"");
    }
    return;
  }
  const absl::StatusOr<int64_t> unit = ParseTimeUnit(in.time_unit());
  if (unit.ok()) {
    spec.unit_ns = *unit;
  } else {
    violations_.Add(prefix_ + "time_unit", unit.status().message());
  }
}

PairLayout Reader::ReadLayout(v1::PairLayout in, const std::string& path) {
  if (in == v1::PAIR_LAYOUT_INTERLEAVED) return PairLayout::kInterleaved;
  if (in != v1::PAIR_LAYOUT_HALF_SPLIT) {
    violations_.Add(
        path + ".pair_layout",
        "required: half_split (GPT-NeoX, Hugging Face) or "
        "interleaved (RoFormer, GPT-J); they give different scores");
  }
  return PairLayout::kHalfSplit;
}

std::optional<Block> Reader::ReadRotary(const v1::Rotary& in,
                                        const std::string& path) {
  if (in.scaling_case() != v1::Rotary::SCALING_NOT_SET) {
    const auto* field =
        v1::Rotary::descriptor()->FindFieldByNumber(in.scaling_case());
    violations_.AddUnserved(absl::StrCat(path, ".", field->name()));
    return std::nullopt;
  }
  if (in.has_axes()) violations_.AddUnserved(path + ".axes");
  return RotaryBlock{
      .base = in.has_base() ? in.base() : 10000,
      .rotary_dim = in.rotary_dim(),
      .layout = ReadLayout(in.pair_layout(), path),
  };
}

std::optional<Block> Reader::ReadRotation(const v1::Rotation& in,
                                          const std::string& path) {
  if (in.frequency_vectors_size() > 0) {
    violations_.AddUnserved(path + ".frequency_vectors");
    return std::nullopt;
  }
  RotationBlock block;
  block.layout = ReadLayout(in.pair_layout(), path);
  if ((in.frequencies_size() > 0) == (in.periods_size() > 0)) {
    violations_.Add(path, "expected exactly one of frequencies and periods");
    return std::nullopt;
  }
  block.frequencies.assign(in.frequencies().begin(), in.frequencies().end());
  for (int i = 0; i < in.periods_size(); ++i) {
    const double period = in.periods(i);
    if (period == 0 || !std::isfinite(period)) {
      violations_.Add(absl::StrCat(path, ".periods[", i, "]"),
                      absl::StrCat(period, ", expected finite and not 0"));
    }
    block.frequencies.push_back(2 * std::numbers::pi / period);
  }
  return block;
}

std::optional<Block> Reader::ReadBlock(const v1::Block& in,
                                       const std::string& path) {
  if (in.coordinate() != 0) violations_.AddUnserved(path + ".coordinate");
  if (in.clock() == v1::CLOCK_REQUEST) violations_.AddUnserved(path + ".clock");
  if (in.clock_channel() != 0) violations_.AddUnserved(path + ".clock_channel");
  if (in.averaged()) violations_.AddUnserved(path + ".averaged");
  switch (in.kind_case()) {
    case v1::Block::KIND_NOT_SET:
      violations_.Add(path, "names no kind of block");
      return std::nullopt;
    case v1::Block::kIdentity:
      return IdentityBlock{.width = in.identity().width()};
    case v1::Block::kRotary:
      return ReadRotary(in.rotary(), path + ".rotary");
    case v1::Block::kRotation:
      return ReadRotation(in.rotation(), path + ".rotation");
    default:
      break;
  }
  const auto* field =
      v1::Block::descriptor()->FindFieldByNumber(in.kind_case());
  violations_.AddUnserved(absl::StrCat(path, ".", field->name()));
  return std::nullopt;
}

std::optional<BiasTerm> Reader::ReadBias(const v1::Bias& in,
                                         const std::string& path) {
  if (in.kind_case() == v1::Bias::KIND_NOT_SET) {
    violations_.Add(path, "names no kind of bias");
    return std::nullopt;
  }
  if (!in.has_alibi()) {
    const auto* field =
        v1::Bias::descriptor()->FindFieldByNumber(in.kind_case());
    violations_.AddUnserved(absl::StrCat(path, ".", field->name()));
    return std::nullopt;
  }
  const v1::Alibi& alibi = in.alibi();
  return AlibiTerm{
      .slopes = {alibi.slopes().begin(), alibi.slopes().end()},
      .two_sided = alibi.two_sided(),
      .bias_max = alibi.has_bias_max() ? alibi.bias_max() : 8,
  };
}

void Reader::Read(const v1::Encoding& in, EncodingSpec& spec) {
  FindUnserved(in);
  ReadRules(in, spec);
  for (int i = 0; i < in.blocks_size(); ++i) {
    const auto block = ReadBlock(in.blocks(i), Path("blocks", i));
    if (block) spec.blocks.push_back(*block);
  }
  for (int i = 0; i < in.biases_size(); ++i) {
    const auto bias = ReadBias(in.biases(i), Path("biases", i));
    if (bias) spec.biases.push_back(*bias);
  }
}

// The definition with every default that does not depend on sizes written out.
v1::Encoding WithDefaults(v1::Encoding encoding) {
  for (v1::Block& block : *encoding.mutable_blocks()) {
    if (block.clock() == v1::CLOCK_UNSPECIFIED) block.set_clock(v1::CLOCK_TIME);
    if (block.has_rotary() && !block.rotary().has_base()) {
      block.mutable_rotary()->set_base(10000);
    }
  }
  for (v1::Bias& bias : *encoding.mutable_biases()) {
    if (bias.has_alibi() && bias.alibi().slopes().empty() &&
        !bias.alibi().has_bias_max()) {
      bias.mutable_alibi()->set_bias_max(8);
    }
  }
  if (encoding.two_sided() == v1::TWO_SIDED_RULE_UNSPECIFIED) {
    encoding.set_two_sided(v1::TWO_SIDED_RULE_REFUSE);
  }
  if (encoding.angle_precision() == v1::ANGLE_PRECISION_UNSPECIFIED) {
    encoding.set_angle_precision(v1::ANGLE_PRECISION_EXACT);
  }
  return encoding;
}

}  // namespace

NamedEncoding ReadEncoding(const v1::Encoding& encoding,
                           absl::string_view prefix, Violations& violations) {
  NamedEncoding out;
  out.name = encoding.name();
  Violations own;
  Reader(prefix, own).Read(encoding, out.spec);
  // Paths of the kernels' own check are right only if no block was left out.
  if (own.empty()) {
    own.AddStatus(Validate(out.spec), prefix, "blocks");
  }
  for (const auto& violation : own.list()) violations.Append(violation);
  out.definition = WithDefaults(encoding);
  v1::Encoding nameless = out.definition;
  nameless.clear_name();
  out.hash = Sha256(DeterministicBytes(nameless));
  return out;
}

EncoderSizes NominalSizes(const EncodingSpec& spec) {
  int channels = 0;
  bool open_ended = false;
  for (const Block& block : spec.blocks) {
    if (const auto* identity = std::get_if<IdentityBlock>(&block)) {
      channels += identity->width;
    } else if (const auto* rotary = std::get_if<RotaryBlock>(&block)) {
      channels += rotary->rotary_dim;
      open_ended |= rotary->rotary_dim == 0;
    } else if (const auto* rotation = std::get_if<RotationBlock>(&block)) {
      channels += 2 * static_cast<int>(rotation->frequencies.size());
    }
  }
  EncoderSizes sizes = {
      .head_dim = std::max(64, channels), .query_heads = 8, .kv_heads = 8};
  // A rotary block over the rest needs an even rest.
  if (open_ended) sizes.head_dim += (sizes.head_dim - channels) % 2;
  if (open_ended && sizes.head_dim == channels) sizes.head_dim += 2;
  for (const BiasTerm& bias : spec.biases) {
    const size_t slopes = std::get<AlibiTerm>(bias).slopes.size();
    if (slopes > 1) {
      sizes.query_heads = sizes.kv_heads = static_cast<int>(slopes);
    }
  }
  return sizes;
}

}  // namespace attnd::server
