#include "kernels/absolute_checks.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/field_checks.h"

namespace attnd {
namespace {

absl::Status Check(const SinusoidalPart& part, const std::string& path) {
  const std::string at = path + ".sinusoidal";
  absl::Status status = CheckPositive(at + ".base", part.base);
  if (!status.ok()) return status;
  return CheckFinite(at + ".amplitude", part.amplitude);
}

absl::Status Check(const LearnedTablePart& part, const std::string& path) {
  const std::string at = path + ".learned_table";
  if (part.rows < 1) return Refuse(at + ".rows", part.rows, ">= 1");
  if (part.dim < 1) return Refuse(at + ".dim", part.dim, ">= 1");
  absl::Status status =
      CheckCount(at + ".table", part.table.size(),
                 static_cast<size_t>(part.rows) * part.dim, "rows * dim");
  if (status.ok()) status = CheckAllFinite(at + ".table", part.table);
  if (!status.ok()) return status;
  return CheckPositive(at + ".step", part.step);
}

absl::Status Check(const Time2VecPart& part, const std::string& path) {
  const std::string at = path + ".time2vec";
  absl::Status status = CheckNotEmpty(
      at + ".frequencies", part.frequencies.size(), "one per channel");
  if (status.ok())
    status = CheckAllFinite(at + ".frequencies", part.frequencies);
  if (status.ok()) {
    status = CheckCount(at + ".phases", part.phases.size(),
                        part.frequencies.size(), "as many as frequencies");
  }
  if (!status.ok()) return status;
  return CheckAllFinite(at + ".phases", part.phases);
}

absl::Status CheckProjection(const std::string& path,
                             const std::vector<float>& projection,
                             size_t embedding) {
  if (projection.empty() || projection.size() % embedding != 0) {
    return Refuse(path, absl::StrCat(projection.size(), " entries"),
                  absl::StrCat("head_dim * ", embedding,
                               " (the channels of the embedding)"));
  }
  return CheckAllFinite(path, projection);
}

absl::Status Check(const MultiTimePart& part, const std::string& path) {
  const std::string at = path + ".mtand";
  absl::Status status = CheckNotEmpty(at + ".embedding", part.embedding.size(),
                                      "one, or one per head");
  if (!status.ok()) return status;
  const size_t channels = part.embedding[0].frequencies.size();
  for (size_t h = 0; h < part.embedding.size(); ++h) {
    const std::string of_head = absl::StrCat(at, ".embedding[", h, "]");
    status = Check(part.embedding[h], of_head);
    if (status.ok()) {
      status = CheckCount(of_head + ".time2vec.frequencies",
                          part.embedding[h].frequencies.size(), channels,
                          "as many as in the first head");
    }
    if (!status.ok()) return status;
  }
  status = CheckProjection(at + ".query_projection", part.query_projection,
                           channels);
  if (!status.ok()) return status;
  status =
      CheckProjection(at + ".key_projection", part.key_projection, channels);
  if (!status.ok()) return status;
  return CheckCount(at + ".key_projection", part.key_projection.size(),
                    part.query_projection.size(), "as many as for queries");
}

absl::Status Check(const HawkesPart& part, const std::string& path) {
  const std::string at = path + ".transformer_hawkes";
  if (!part.index_form) {
    return CheckCount(
        at + ".time_frequencies",
        part.time_frequencies.size() + part.index_frequencies.size(), 0,
        "the THP form has its own");
  }
  absl::Status status =
      CheckNotEmpty(at + ".index_frequencies", part.index_frequencies.size(),
                    "one per channel");
  if (status.ok()) {
    status = CheckAllFinite(at + ".index_frequencies", part.index_frequencies);
  }
  if (status.ok()) {
    status =
        CheckCount(at + ".time_frequencies", part.time_frequencies.size(),
                   part.index_frequencies.size(), "as many as for the index");
  }
  if (!status.ok()) return status;
  return CheckAllFinite(at + ".time_frequencies", part.time_frequencies);
}

}  // namespace

absl::Status CheckAbsolutePart(const AbsolutePart& part,
                               const std::string& path) {
  if (!part.on_query && !part.on_key) {
    return Refuse(path + ".target", "neither queries nor keys",
                  "at least one of them");
  }
  return std::visit([&](const auto& kind) { return Check(kind, path); },
                    part.kind);
}

absl::Status CheckTemperature(const QueryTemperature& temperature,
                              const std::string& path) {
  absl::Status status = CheckPositive(path + ".length", temperature.length);
  if (status.ok()) status = CheckFinite(path + ".scale", temperature.scale);
  if (status.ok()) status = CheckFinite(path + ".offset", temperature.offset);
  if (!status.ok()) return status;
  if (!temperature.llama4 && !(temperature.length > 1)) {
    return Refuse(path + ".length", temperature.length,
                  "> 1: its logarithm divides");
  }
  return absl::OkStatus();
}

}  // namespace attnd
