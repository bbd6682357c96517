// ReadAbsolute and ReadTemperature of block_reader.h.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/block_reader.h"

namespace attnd::server {
namespace {

using Kind = decltype(AbsolutePart::kind);

template <typename T, typename Field>
std::vector<T> List(const Field& field) {
  return {field.begin(), field.end()};
}

std::optional<Kind> ReadSinusoidal(const v1::Sinusoidal& in,
                                   const std::string& path,
                                   Violations& violations) {
  SinusoidalPart out;
  if (in.has_base()) out.base = in.base();
  if (in.has_amplitude()) out.amplitude = in.amplitude();
  switch (in.order()) {
    case v1::Sinusoidal::ORDER_INTERLEAVED:
      out.order = SinusoidalPart::Order::kInterleaved;
      return out;
    case v1::Sinusoidal::ORDER_CONCATENATED:
      out.order = SinusoidalPart::Order::kConcatenated;
      return out;
    case v1::Sinusoidal::ORDER_ENDPOINTS:
      out.order = SinusoidalPart::Order::kEndpoints;
      return out;
    default:
      violations.Add(path + ".order",
                     "required: interleaved (Vaswani), concatenated or "
                     "endpoints (tensor2tensor)");
      return std::nullopt;
  }
}

Kind ReadTable(const v1::LearnedTable& in) {
  LearnedTablePart out;
  out.rows = in.rows();
  out.dim = in.dim();
  out.table = List<float>(in.table());
  if (in.has_step()) out.step = in.step();
  out.row_offset = in.row_offset();
  using Boundary = LearnedTablePart::Boundary;
  out.boundary =
      in.boundary() == v1::LearnedTable::BOUNDARY_CLAMP  ? Boundary::kClamp
      : in.boundary() == v1::LearnedTable::BOUNDARY_WRAP ? Boundary::kWrap
                                                         : Boundary::kError;
  using Interpolation = LearnedTablePart::Interpolation;
  switch (in.interpolation()) {
    case v1::LearnedTable::INTERPOLATION_NEAREST:
      out.interpolation = Interpolation::kNearest;
      break;
    case v1::LearnedTable::INTERPOLATION_LINEAR:
      out.interpolation = Interpolation::kLinear;
      break;
    case v1::LearnedTable::INTERPOLATION_CUBIC:
      out.interpolation = Interpolation::kCubic;
      break;
    default:
      break;
  }
  return out;
}

Time2VecPart ReadTime2Vec(const v1::Time2Vec& in) {
  Time2VecPart out;
  out.frequencies = List<double>(in.frequencies());
  out.phases = List<double>(in.phases());
  return out;
}

Kind ReadMultiTime(const v1::MultiTimeAttention& in) {
  MultiTimePart out;
  for (const v1::Time2Vec& embedding : in.embedding()) {
    out.embedding.push_back(ReadTime2Vec(embedding));
  }
  out.query_projection = List<float>(in.query_projection());
  out.key_projection = List<float>(in.key_projection());
  return out;
}

std::optional<Kind> ReadHawkes(const v1::TransformerHawkes& in,
                               const std::string& path,
                               Violations& violations) {
  if (in.form() != v1::TransformerHawkes::FORM_THP &&
      in.form() != v1::TransformerHawkes::FORM_SAHP) {
    violations.Add(path + ".form", "required: thp or sahp");
    return std::nullopt;
  }
  HawkesPart out;
  out.index_form = in.form() == v1::TransformerHawkes::FORM_SAHP;
  out.index_frequencies = List<double>(in.index_frequencies());
  out.time_frequencies = List<double>(in.time_frequencies());
  return out;
}

std::optional<Kind> ReadKind(const v1::Absolute& in, const std::string& path,
                             Violations& violations) {
  switch (in.kind_case()) {
    case v1::Absolute::kSinusoidal:
      return ReadSinusoidal(in.sinusoidal(), path + ".sinusoidal", violations);
    case v1::Absolute::kLearnedTable:
      return ReadTable(in.learned_table());
    case v1::Absolute::kTime2Vec:
      return ReadTime2Vec(in.time2vec());
    case v1::Absolute::kMtand:
      return ReadMultiTime(in.mtand());
    case v1::Absolute::kTransformerHawkes:
      return ReadHawkes(in.transformer_hawkes(), path + ".transformer_hawkes",
                        violations);
    case v1::Absolute::KIND_NOT_SET:
      break;
  }
  AddNoKind(in, "absolute part", path, violations);
  return std::nullopt;
}

}  // namespace

std::optional<AbsolutePart> ReadAbsolute(const v1::Absolute& in,
                                         const std::string& path,
                                         Violations& violations) {
  std::optional<Kind> kind = ReadKind(in, path, violations);
  if (!kind) return std::nullopt;
  AbsolutePart out;
  out.kind = *std::move(kind);
  out.origin_ticks = in.origin_ticks();
  out.on_query = in.target() != v1::Absolute::TARGET_KEY;
  out.on_key = in.target() != v1::Absolute::TARGET_QUERY;
  return out;
}

std::optional<QueryTemperature> ReadTemperature(const v1::QueryTemperature& in,
                                                const std::string& path,
                                                Violations& violations) {
  if (in.form() != v1::QueryTemperature::FORM_LOG_LENGTH &&
      in.form() != v1::QueryTemperature::FORM_LLAMA4) {
    violations.Add(path + ".form", "required: log_length or llama4");
    return std::nullopt;
  }
  QueryTemperature out;
  out.llama4 = in.form() == v1::QueryTemperature::FORM_LLAMA4;
  if (in.has_length()) out.length = in.length();
  if (in.has_scale()) out.scale = in.scale();
  out.offset = in.offset();
  for (const auto& [given, field] : {std::pair(in.has_scale(), ".scale"),
                                     std::pair(in.offset() != 0, ".offset")}) {
    if (given && !out.llama4) {
      violations.Add(path + field,
                     "is read with form: llama4 alone; leave it out");
    }
  }
  return out;
}

}  // namespace attnd::server
