// Resolve of named_encoding.h: an encoding's numbers as ListEncodings shows
// them.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/effective_horizon.h"
#include "server/named_encoding.h"
#include "server/resolved_generator.h"

namespace attnd::server {
namespace {

// "rotation of 32 planes", "2 x decay"; nothing for a generator of identities.
std::vector<std::string> KindsOf(const v1::ResolvedGenerator& generator) {
  std::map<std::string, int> kinds;
  for (const v1::ResolvedBlock& block : generator.blocks()) {
    if (block.kind() != "identity") ++kinds[block.kind()];
  }
  std::vector<std::string> parts;
  for (const auto& [kind, count] : kinds) {
    parts.push_back(kind == "rotation"
                        ? absl::StrCat("rotation of ", count, " planes")
                        : absl::StrCat(count, " x ", kind));
  }
  return parts;
}

// Heads with the same kinds of blocks together: "2 x decay (kv heads 0 to 3)".
std::vector<std::string> GeneratorTexts(const v1::ResolvedEncoding& encoding) {
  constexpr size_t kMostRuns = 4;
  struct Run {
    int first, last;
    std::vector<std::string> kinds;
  };
  std::vector<Run> runs;
  for (int h = 0; h < encoding.generators_size(); ++h) {
    std::vector<std::string> kinds = KindsOf(encoding.generators(h));
    if (!runs.empty() && runs.back().kinds == kinds) {
      runs.back().last = h;
    } else {
      runs.push_back({h, h, std::move(kinds)});
    }
  }
  if (runs.size() == 1) return runs[0].kinds;
  std::vector<std::string> texts;
  for (size_t r = 0; r < std::min(runs.size(), kMostRuns); ++r) {
    const Run& run = runs[r];
    texts.push_back(absl::StrCat(
        run.kinds.empty() ? "identity" : absl::StrJoin(run.kinds, " and "),
        run.first == run.last
            ? absl::StrCat(" (kv head ", run.first, ")")
            : absl::StrCat(" (kv heads ", run.first, " to ", run.last, ")")));
  }
  if (runs.size() > kMostRuns) {
    texts.push_back(
        absl::StrCat("others (kv heads from ", runs[kMostRuns].first, " on)"));
  }
  return texts;
}

// Whether an absolute part grows with time: Time2Vec's first channel is linear.
bool Grows(const AbsolutePart& part) {
  const auto grows = [](const Time2VecPart& time) {
    return time.frequencies[0] != 0;
  };
  if (const auto* time = std::get_if<Time2VecPart>(&part.kind)) {
    return grows(*time);
  }
  const auto* mtand = std::get_if<MultiTimePart>(&part.kind);
  return mtand != nullptr &&
         std::any_of(mtand->embedding.begin(), mtand->embedding.end(), grows);
}

// "rotation of 32 planes and ALiBi; unit 1s".
std::string Summary(const v1::ResolvedEncoding& encoding, bool one_sided) {
  const v1::Encoding& definition = encoding.definition();
  std::vector<std::string> parts = GeneratorTexts(encoding);
  if (!encoding.alibi_slopes().empty()) {
    parts.push_back(absl::StrCat("ALiBi", one_sided ? "" : " on both sides"));
  }
  const auto name = [](const auto& message) {
    return message.GetDescriptor()
        ->FindFieldByNumber(message.kind_case())
        ->name();
  };
  for (const v1::Bias& bias : definition.biases()) {
    if (!bias.has_alibi()) parts.push_back(name(bias));
  }
  for (const v1::Absolute& part : definition.absolutes()) {
    parts.push_back(name(part));
  }
  if (definition.has_query_temperature()) {
    parts.push_back("query temperature");
  }
  if (parts.empty()) return "no encoding: only masks see the time";
  const std::string text = absl::StrJoin(parts, " and ");
  return definition.time_unit().empty()
             ? text
             : absl::StrCat(text, "; unit ", definition.time_unit());
}

// Presets that are biases, as the biases they stand for.
v1::Encoding WithPresetBiases(v1::Encoding definition) {
  if (!definition.preset().has_fox()) return definition;
  definition.add_biases()->mutable_cumulative_gate()->set_per_unit(
      definition.preset().fox().per_unit());
  definition.clear_preset();
  return definition;
}

}  // namespace

absl::StatusOr<v1::ResolvedEncoding> Resolve(const NamedEncoding& encoding,
                                             const EncoderSizes& sizes) {
  const TickRatio ratio = {
      .tick_ns = std::max<int64_t>(1, encoding.spec.unit_ns),
      .unit_ns = std::max<int64_t>(1, encoding.spec.unit_ns)};
  const absl::StatusOr<EncodingSpec> spec = SpecFor(encoding, sizes);
  if (!spec.ok()) return spec.status();
  const auto encoder = Encoder::Compile(*spec, sizes, ratio);
  if (!encoder.ok()) return encoder.status();
  v1::ResolvedEncoding out;
  out.set_name(encoding.name);
  out.set_hash(encoding.hash);
  *out.mutable_definition() = WithPresetBiases(encoding.definition);
  out.set_unit_nanoseconds(static_cast<double>(spec->unit_ns));
  for (int64_t unit_ns : spec->coordinate_unit_ns) {
    out.add_coordinate_unit_nanoseconds(static_cast<double>(unit_ns));
  }
  out.set_head_dim(sizes.head_dim);
  bool bounded = true, relative = true;
  const int generators = spec->per_head.empty() ? 1 : sizes.kv_heads;
  for (int g = 0; g < generators; ++g) {
    const Generator& generator = (*encoder)->head(g).generator();
    *out.add_generators() = ResolveGenerator(generator);
    bounded = bounded && generator.bounded();
    // Angles in float32 round places, not lags.
    relative = relative && generator.relative() &&
               (!spec->hf_fp32_angles || generator.planes().empty());
  }
  for (int head = 0; head < sizes.query_heads; ++head) {
    if ((*encoder)->has_linear_bias()) {
      out.add_alibi_slopes((*encoder)->slope(head));
    }
    out.add_effective_horizon(EffectiveHorizon(**encoder, head));
  }
  out.set_relative(relative && spec->absolutes.empty() && !spec->temperature);
  out.set_bounded(bounded && std::none_of(spec->absolutes.begin(),
                                          spec->absolutes.end(), Grows));
  out.set_causal_only((*encoder)->one_sided());
  out.set_length_dependent((*encoder)->length_dependent());
  out.set_summary(Summary(out, (*encoder)->one_sided()));
  return out;
}

v1::ResolvedEncoding Misfit(const NamedEncoding& encoding,
                            const absl::Status& why) {
  v1::ResolvedEncoding out;
  out.set_name(encoding.name);
  out.set_hash(encoding.hash);
  *out.mutable_definition() = encoding.definition;
  out.set_misfit(std::string(why.message()));
  out.set_summary(absl::StrCat("does not fit the sizes: ", why.message()));
  return out;
}

}  // namespace attnd::server
