#include "kernels/absolute.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/absolute_checks.h"
#include "kernels/field_checks.h"
#include "kernels/learned_table.h"
#include "kernels/sine_channels.h"

namespace attnd {
namespace {

// That a valid part fits the sizes.
struct SizeCheck {
  const std::string& path;
  int dim, heads;

  absl::Status operator()(const SinusoidalPart&) const {
    if (dim % 2 == 0) return absl::OkStatus();
    return Refuse(path + ".sinusoidal", absl::StrCat("head dimension ", dim),
                  "an even one");
  }
  absl::Status operator()(const LearnedTablePart& part) const {
    if (part.dim == dim) return absl::OkStatus();
    return Refuse(path + ".learned_table.dim", part.dim,
                  absl::StrCat(dim, " (head dimension)"));
  }
  absl::Status operator()(const Time2VecPart& part) const {
    return CheckCount(path + ".time2vec.frequencies", part.frequencies.size(),
                      dim, "head dimension");
  }
  absl::Status operator()(const MultiTimePart& part) const {
    if (part.embedding.size() != 1) {
      absl::Status status =
          CheckCount(path + ".mtand.embedding", part.embedding.size(), heads,
                     "kv heads, or one for all");
      if (!status.ok()) return status;
    }
    return CheckCount(path + ".mtand.query_projection",
                      part.query_projection.size(),
                      dim * part.embedding[0].frequencies.size(),
                      "head dimension times channels of the embedding");
  }
  absl::Status operator()(const HawkesPart& part) const {
    if (!part.index_form) return absl::OkStatus();
    return CheckCount(path + ".transformer_hawkes.index_frequencies",
                      part.index_frequencies.size(), dim, "head dimension");
  }
};

struct MakeVector {
  int dim;
  const TickRatio& ratio;
  int64_t origin;
  using Made = std::unique_ptr<AbsoluteVector>;

  Made operator()(const SinusoidalPart& part) const {
    return MakeSineVector(SineChannels::Sinusoidal(part, dim, ratio, origin));
  }
  Made operator()(const LearnedTablePart& part) const {
    return MakeLearnedTable(part, ratio, origin);
  }
  Made operator()(const Time2VecPart& part) const {
    return MakeSineVector(SineChannels::Time2Vec(part, ratio, origin));
  }
  Made operator()(const MultiTimePart& part) const {
    return MakeMultiTimeVector(part, dim, ratio, origin);
  }
  Made operator()(const HawkesPart& part) const {
    return MakeSineVector(SineChannels::Hawkes(part, dim, ratio, origin));
  }
};

// Where a table is defined, for messages.
std::string Extent(const LearnedTablePart& table) {
  const bool exact =
      table.interpolation == LearnedTablePart::Interpolation::kExact;
  std::string text = exact ? "whole positions" : "positions";
  if (table.boundary == LearnedTablePart::Boundary::kError) {
    absl::StrAppend(&text, " from ", -table.row_offset, " to ",
                    table.rows - 1 - table.row_offset, " (a table of ",
                    table.rows, " rows)");
  }
  if (table.step != 1)
    absl::StrAppend(&text, ", one per ", table.step, " units");
  return text;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Absolute>> Absolute::Compile(
    const std::vector<AbsolutePart>& parts, int head_dim, int heads,
    const TickRatio& ratio) {
  std::shared_ptr<Absolute> absolute(new Absolute);
  absolute->dim_ = head_dim;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string path = absl::StrCat("absolutes[", i, "]");
    absl::Status status = CheckAbsolutePart(parts[i], path);
    if (status.ok()) {
      status = std::visit(SizeCheck{path, head_dim, heads}, parts[i].kind);
    }
    if (!status.ok()) return status;
    Part part{
        .vector = std::visit(MakeVector{head_dim, ratio, parts[i].origin_ticks},
                             parts[i].kind),
        .on_query = parts[i].on_query,
        .on_key = parts[i].on_key,
        .place = path};
    if (const auto* table = std::get_if<LearnedTablePart>(&parts[i].kind)) {
      absolute->bounded_ = true;
      absl::StrAppend(&part.place, ".learned_table has ", Extent(*table));
    }
    absolute->parts_.push_back(std::move(part));
  }
  return absolute;
}

absl::Status Absolute::Check(bool query, absl::Span<const AbsoluteTime> times,
                             absl::string_view field) const {
  if (!bounded_) return absl::OkStatus();
  int64_t count = 0;
  std::string first;
  for (size_t i = 0; i < times.size(); ++i) {
    const auto outside = [&](const Part& part) {
      return (query ? part.on_query : part.on_key) &&
             !part.vector->Covers(times[i]);
    };
    const auto part = std::find_if(parts_.begin(), parts_.end(), outside);
    if (part == parts_.end()) continue;
    if (count++ > 0) continue;
    const std::string time = times[i].exact ? absl::StrCat(times[i].ticks)
                                            : absl::StrCat(times[i].real);
    first =
        absl::StrCat(field, ": ", times[i].position ? "position " : "time ",
                     time, " of row ", times[i].index, ", but ", part->place);
  }
  if (count == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(first, "; ", count, " such ", count == 1 ? "row" : "rows"));
}

void Absolute::Exact(bool query, int head, const AbsoluteTime& time,
                     double* vector) const {
  std::fill(vector, vector + dim_, 0.0);
  for (const Part& part : parts_) {
    if (query ? part.on_query : part.on_key) {
      part.vector->AddExact(query, head, time, vector);
    }
  }
}

void Absolute::AddToRow(bool query, int head, const AbsoluteTime& time,
                        AbsoluteScratch* scratch, float* row) const {
  for (const Part& part : parts_) {
    if (query ? part.on_query : part.on_key) {
      part.vector->AddToRow(query, head, time, scratch, row);
    }
  }
}

}  // namespace attnd
