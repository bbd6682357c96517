#include "server/named_encoding.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/basis.h"
#include "server/block_reader.h"
#include "server/encoding_defaults.h"
#include "server/hash.h"
#include "server/unused_fields.h"

namespace attnd::server {
namespace {

bool SameTemperature(const QueryTemperature& a, const QueryTemperature& b) {
  return a.llama4 == b.llama4 && a.length == b.length && a.scale == b.scale &&
         a.offset == b.offset;
}

// Reads one encoding; `path` of every method is that of its message, with the
// prefix of the encoding.
class Reader {
 public:
  Reader(absl::string_view prefix, Violations& violations)
      : prefix_(prefix), violations_(violations) {}

  void Read(const v1::Encoding& in, EncodingSpec& spec);

 private:
  void ReadRules(const v1::Encoding& in, EncodingSpec& spec);
  std::vector<Block> ReadBlocks(
      const google::protobuf::RepeatedPtrField<v1::Block>& in,
      const std::string& path);
  void ReadBasis(const v1::Basis& in, EncodingSpec& spec);
  void CheckPreset(const v1::Preset& in);
  void ReadTemperatures(const v1::Encoding& in, EncodingSpec& spec);

  std::string Path(absl::string_view field, int index) const {
    return absl::StrCat(prefix_, field, "[", index, "]");
  }

  const std::string prefix_;
  Violations& violations_;
};

void Reader::ReadRules(const v1::Encoding& in, EncodingSpec& spec) {
  spec.absolute_lag = in.two_sided() == v1::TWO_SIDED_RULE_ABSOLUTE_LAG;
  spec.hf_fp32_angles = in.angle_precision() == v1::ANGLE_PRECISION_HF_FP32;

  const bool has_parts =
      in.blocks_size() > 0 || in.per_head_size() > 0 || in.biases_size() > 0 ||
      in.absolutes_size() > 0 || in.has_preset() ||
      in.query_temperature().form() == v1::QueryTemperature::FORM_LLAMA4;
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

std::vector<Block> Reader::ReadBlocks(
    const google::protobuf::RepeatedPtrField<v1::Block>& in,
    const std::string& path) {
  std::vector<Block> blocks;
  for (int i = 0; i < in.size(); ++i) {
    auto block =
        ReadBlock(in[i], absl::StrCat(path, "blocks[", i, "]"), violations_);
    if (block) blocks.push_back(*std::move(block));
  }
  return blocks;
}

void Reader::Read(const v1::Encoding& in, EncodingSpec& spec) {
  ReadRules(in, spec);
  spec.blocks = ReadBlocks(in.blocks(), prefix_);
  for (int h = 0; h < in.per_head_size(); ++h) {
    spec.per_head.push_back(
        ReadBlocks(in.per_head(h).blocks(), Path("per_head", h) + "."));
  }
  if (in.blocks_size() > 0 && in.per_head_size() > 0) {
    violations_.Add(prefix_ + "per_head", "given beside blocks; send one");
  }
  for (int i = 0; i < in.biases_size(); ++i) {
    auto bias = ReadBias(in.biases(i), Path("biases", i), violations_);
    if (bias) spec.biases.push_back(*std::move(bias));
  }
  for (int i = 0; i < in.coordinate_units_size(); ++i) {
    const absl::StatusOr<int64_t> unit = ParseTimeUnit(in.coordinate_units(i));
    if (unit.ok()) {
      spec.coordinate_unit_ns.push_back(*unit);
    } else {
      violations_.Add(Path("coordinate_units", i), unit.status().message());
    }
  }
  if (in.has_basis()) ReadBasis(in.basis(), spec);
  for (int i = 0; i < in.absolutes_size(); ++i) {
    auto part =
        ReadAbsolute(in.absolutes(i), Path("absolutes", i), violations_);
    if (part) spec.absolutes.push_back(*std::move(part));
  }
  ReadTemperatures(in, spec);
  if (in.has_preset()) CheckPreset(in.preset());
  if (in.has_preset() && (in.blocks_size() > 0 || in.per_head_size() > 0)) {
    violations_.Add(prefix_ + "preset", "given beside blocks; send one");
  }
}

// The encoding's own, or the one that blocks of Hugging Face's ask for.
void Reader::ReadTemperatures(const v1::Encoding& in, EncodingSpec& spec) {
  const std::string own = prefix_ + "query_temperature";
  if (in.has_query_temperature()) {
    spec.temperature =
        ReadTemperature(in.query_temperature(), own, violations_);
    if (!spec.temperature) return;
  }
  const auto read = [&](const auto& blocks, const std::string& path) {
    for (int i = 0; i < blocks.size(); ++i) {
      const std::string at = absl::StrCat(path, "blocks[", i, "].rotary");
      const auto asked =
          ReadRopeTemperature(blocks[i].rotary(), at, violations_);
      if (asked && !spec.temperature) spec.temperature = asked;
      if (!asked || SameTemperature(*asked, *spec.temperature)) continue;
      violations_.Add(
          absl::StrCat(at,
                       blocks[i].rotary().has_rope_parameters()
                           ? ".rope_parameters"
                           : ".rope_scaling",
                       ".llama_4_scaling_beta"),
          absl::StrCat("asks for the query temperature llama4 of scale ",
                       asked->scale, " and length ", asked->length, ", and ",
                       in.has_query_temperature() ? own : "another block",
                       " for another; leave one of them out"));
    }
  };
  read(in.blocks(), prefix_);
  for (int h = 0; h < in.per_head_size(); ++h) {
    read(in.per_head(h).blocks(), Path("per_head", h) + ".");
  }
}

// What does not wait for sizes.
void Reader::CheckPreset(const v1::Preset& in) {
  const std::string path = prefix_ + "preset";
  const auto check = [&](const char* kind, v1::PairLayout layout) {
    ReadLayout(layout, absl::StrCat(path, ".", kind), violations_);
  };
  if (in.kind_case() == v1::Preset::KIND_NOT_SET) {
    AddNoKind(in, "preset", path, violations_);
  } else if (in.has_selective_rope()) {
    check("selective_rope", in.selective_rope().pair_layout());
  } else if (in.xpos().pair_layout() != v1::PAIR_LAYOUT_UNSPECIFIED) {
    check("xpos", in.xpos().pair_layout());
  } else if (in.retnet().pair_layout() != v1::PAIR_LAYOUT_UNSPECIFIED) {
    check("retnet", in.retnet().pair_layout());
  }
}

void Reader::ReadBasis(const v1::Basis& in, EncodingSpec& spec) {
  const std::string path = prefix_ + "basis";
  const int64_t dim = in.dim();
  if (dim < 1 || (in.matrix_size() > 0) == (in.cayley_size() > 0)) {
    violations_.Add(path, "expected dim >= 1 and one of matrix and cayley");
    return;
  }
  if (in.matrix_size() > 0) {
    if (in.matrix_size() != dim * dim) {
      violations_.Add(
          path + ".matrix",
          absl::StrCat(in.matrix_size(), " entries, expected ", dim * dim));
      return;
    }
    spec.basis.assign(in.matrix().begin(), in.matrix().end());
    return;
  }
  const std::vector<double> triangle(in.cayley().begin(), in.cayley().end());
  const absl::StatusOr<std::vector<double>> basis =
      CayleyBasis(triangle, static_cast<int>(dim), path + ".cayley");
  if (basis.ok()) {
    spec.basis = *basis;
  } else {
    violations_.AddStatus(basis.status(), "", path + ".cayley");
  }
}

// Heads that a term's lists name; 0 if any number will do.
int HeadsOf(const BiasTerm& bias) {
  if (const auto* term = std::get_if<AlibiTerm>(&bias)) {
    return static_cast<int>(term->slopes.size());
  }
  if (const auto* term = std::get_if<KerpleTerm>(&bias)) {
    return static_cast<int>(std::max(term->r1.size(), term->r2.size()));
  }
  if (const auto* term = std::get_if<T5Term>(&bias)) {
    return static_cast<int>(term->table.size()) / std::max(1, term->buckets);
  }
  if (const auto* term = std::get_if<HstuTerm>(&bias)) {
    return static_cast<int>(term->table.size()) /
           std::max(1, term->max_bucket + 1);
  }
  if (const auto* term = std::get_if<FireTerm>(&bias)) {
    return static_cast<int>(term->b2.size());
  }
  if (const auto* term = std::get_if<GrapeAdditiveTerm>(&bias)) {
    return static_cast<int>(term->slopes.size());
  }
  if (const auto* term = std::get_if<LagTableTerm>(&bias)) {
    return static_cast<int>(term->values.size() /
                            std::max<size_t>(1, term->lags.size()));
  }
  return 0;
}

// The head dimension that an absolute part is made for; 0 if any will do.
int DimOf(const AbsolutePart& part) {
  if (const auto* table = std::get_if<LearnedTablePart>(&part.kind)) {
    return table->dim;
  }
  if (const auto* time = std::get_if<Time2VecPart>(&part.kind)) {
    return static_cast<int>(time->frequencies.size());
  }
  if (const auto* mtand = std::get_if<MultiTimePart>(&part.kind)) {
    const size_t width =
        mtand->embedding.empty() ? 0 : mtand->embedding[0].frequencies.size();
    return width == 0
               ? 0
               : static_cast<int>(mtand->query_projection.size() / width);
  }
  if (const auto* hawkes = std::get_if<HawkesPart>(&part.kind)) {
    return static_cast<int>(hawkes->index_frequencies.size());
  }
  return 0;
}

}  // namespace

NamedEncoding ReadEncoding(const v1::Encoding& encoding,
                           absl::string_view prefix, Violations& violations,
                           EncodingChecks checks,
                           const std::atomic<bool>* stop) {
  NamedEncoding out;
  out.name = encoding.name();
  Violations own;
  if (CheckEnums(encoding, prefix, own)) {
    Reader(prefix, own).Read(encoding, out.spec);
    CheckUnused(encoding, prefix, own);
  }
  // Paths of the kernels' own check are right only if no block was left out.
  if (own.empty() && checks == EncodingChecks::kAll) {
    const absl::Status valid = Validate(out.spec, stop);
    if (!absl::IsCancelled(valid)) own.AddStatus(valid, prefix, "blocks");
  }
  for (const auto& violation : own.list()) violations.Append(violation);
  out.definition = WithDefaults(encoding);
  if (out.spec.temperature && !encoding.has_query_temperature()) {
    v1::QueryTemperature& temperature =
        *out.definition.mutable_query_temperature();
    temperature.set_form(v1::QueryTemperature::FORM_LLAMA4);
    temperature.set_length(out.spec.temperature->length);
    temperature.set_scale(out.spec.temperature->scale);
  }
  v1::Encoding nameless = out.definition;
  nameless.clear_name();
  out.hash = Sha256(DeterministicBytes(nameless));
  return out;
}

EncoderSizes NominalSizes(const EncodingSpec& spec) {
  EncoderSizes sizes = {.head_dim = 64, .query_heads = 8, .kv_heads = 8};
  if (!spec.per_head.empty()) {
    sizes.kv_heads = sizes.query_heads = static_cast<int>(spec.per_head.size());
  }
  if (!spec.basis.empty()) {
    sizes.head_dim =
        static_cast<int>(std::lround(std::sqrt(spec.basis.size())));
    return sizes;
  }
  for (const AbsolutePart& part : spec.absolutes) {
    if (const int dim = DimOf(part); dim > 0) sizes.head_dim = dim;
  }
  for (const BiasTerm& bias : spec.biases) {
    const auto* grape = std::get_if<GrapeAdditiveTerm>(&bias);
    if (grape == nullptr) continue;
    sizes.head_dim = static_cast<int>(
        std::max(grape->query_direction.size(), grape->key_direction.size()));
  }
  const std::vector<Block>& blocks =
      spec.per_head.empty() ? spec.blocks : spec.per_head.front();
  // The smallest head that holds the blocks, from the usual size on, or else
  // the largest below it. Blocks that take what is left need an even or a
  // fitting rest: LongRoPE as many planes as it has factors.
  const int limit = 1024, usual = sizes.head_dim;
  const auto fits = [&](int dim) { return Generator::Make(blocks, dim).ok(); };
  while (sizes.head_dim < limit && !fits(sizes.head_dim)) ++sizes.head_dim;
  if (sizes.head_dim == limit) {
    sizes.head_dim = usual - 1;
    while (sizes.head_dim > 0 && !fits(sizes.head_dim)) --sizes.head_dim;
  }
  if (sizes.head_dim == 0) sizes.head_dim = usual;
  for (const BiasTerm& bias : spec.biases) {
    const int heads = HeadsOf(bias);
    if (heads > 1) sizes.query_heads = sizes.kv_heads = heads;
  }
  return sizes;
}

}  // namespace attnd::server
