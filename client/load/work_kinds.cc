#include "client/load/work_kinds.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/channel.h"
#include "client/duration_text.h"
#include "client/files.h"
#include "client/interpolate/csv.h"
#include "client/linear_names.h"
#include "client/load/array_work.h"

namespace attnd::client {
namespace {

// Of the requests that one run sends in turn: the largest message there is.
constexpr double kMaxWorkBytes = 0x1p31;

absl::StatusOr<int64_t> Length(const char* option, const std::string& text) {
  absl::StatusOr<int64_t> ns = ParseDuration(text);
  if (ns.ok() && *ns >= 0) return ns;
  return absl::InvalidArgumentError(
      ns.ok() ? absl::StrCat(option, " ", text, ": expected at least 0")
              : absl::StrCat(option, ": ", ns.status().message()));
}

absl::Status SetWindows(const WorkArguments& arguments, Work* work) {
  if (!arguments.past.empty()) {
    const auto ns = Length("--past", arguments.past);
    if (!ns.ok()) return ns.status();
    work->past_ns = *ns;
  }
  if (!arguments.future.empty()) {
    const auto ns = Length("--future", arguments.future);
    if (!ns.ok()) return ns.status();
    work->future_ns = *ns;
  }
  if (arguments.past_keys) work->past_keys = arguments.past_keys;
  return absl::OkStatus();
}

absl::Status SetOutputs(const WorkArguments& arguments, Work* work) {
  const std::map<std::string, v1::Output> outputs = {
      {"output", v1::OUTPUT_OUTPUT},     {"lse", v1::OUTPUT_LSE},
      {"scores", v1::OUTPUT_SCORES},     {"weights", v1::OUTPUT_WEIGHTS},
      {"key_mass", v1::OUTPUT_KEY_MASS}, {"entropy", v1::OUTPUT_ENTROPY}};
  work->outputs.clear();
  for (const std::string& name : arguments.outputs) {
    const auto found = outputs.find(name);
    if (found == outputs.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--outputs '", name,
          "', expected output, lse, scores, weights, key_mass or entropy"));
    }
    work->outputs.push_back(found->second);
  }
  return absl::OkStatus();
}

absl::Status SetLinear(const WorkArguments& arguments, Work* work) {
  const WorkArguments plain;
  if (arguments.kind == "linear") {
    if (arguments.outputs != plain.outputs) {
      return absl::InvalidArgumentError(
          "--outputs: --kind linear has output alone");
    }
    work->kind = v1::ATTENTION_KIND_LINEAR;
    work->linear = LinearOptionsOf(arguments.normaliser, arguments.feature_map,
                                   arguments.input_rule);
  } else if (arguments.normaliser != plain.normaliser ||
             arguments.feature_map != plain.feature_map ||
             arguments.input_rule != plain.input_rule) {
    return absl::InvalidArgumentError(
        "--normaliser, --feature-map and --input-rule need --kind linear");
  }
  return absl::OkStatus();
}

absl::StatusOr<Work> MakeWork(const WorkArguments& arguments) {
  Work work = {.batch = arguments.batch,
               .heads = arguments.heads,
               .queries = arguments.queries,
               .dim = arguments.dim,
               .encoding = arguments.encoding,
               .strict = arguments.strict,
               .ragged = arguments.ragged,
               .times = *TimeKindOf(arguments.times),
               .priority = arguments.priority,
               .distinct = arguments.distinct,
               .seed = arguments.seed};
  work.kv_heads = arguments.kv_heads.value_or(work.heads);
  work.keys = arguments.keys.value_or(work.queries);
  work.value_dim = arguments.value_dim.value_or(work.dim);
  work.dtype = arguments.dtype == "bf16"  ? v1::DTYPE_BF16
               : arguments.dtype == "f16" ? v1::DTYPE_F16
                                          : v1::DTYPE_F32;
  if (arguments.compute == "bf16") work.compute = v1::COMPUTE_PRECISION_BF16;
  if (arguments.causal == "time") {
    work.causal = v1::CAUSALITY_TIME;
  } else if (arguments.causal == "index") {
    work.causal = v1::CAUSALITY_INDEX;
  } else if (arguments.causal != "none") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--causal ", arguments.causal, ", expected time, index or none"));
  }
  const auto gap = Length("--gap", arguments.gap);
  if (!gap.ok()) return gap.status();
  work.mean_gap_ns = *gap;
  absl::Status status = SetWindows(arguments, &work);
  if (status.ok()) status = SetLinear(arguments, &work);
  if (status.ok()) status = SetOutputs(arguments, &work);
  if (status.ok()) status = CheckWork(work);
  if (!status.ok()) return status;
  return work;
}

absl::StatusOr<Series> ReadSeries(const WorkArguments& arguments) {
  absl::StatusOr<std::string> file = ReadFile(arguments.series);
  if (!file.ok()) return file.status();
  SeriesOptions options = {.time_column = arguments.time_column,
                           .value_column = arguments.value_column};
  if (!arguments.missing.empty()) options.missing = {arguments.missing};
  const auto format = TimeFormatOf(arguments.time_unit);
  if (!format.ok()) return format.status();
  options.time_format = *format;
  const absl::StatusOr<CsvTable> table = ParseCsv(*file);
  absl::StatusOr<Series> series =
      table.ok() ? MakeSeries(*table, options) : table.status();
  if (series.ok()) return series;
  return absl::InvalidArgumentError(
      absl::StrCat(arguments.series, ": ", series.status().message()));
}

// Takes the kind's generated requests, which are all held at once, from what is
// left of kMaxWorkBytes.
absl::Status TakeBytes(const Work& work, double* left) {
  const double bytes = RequestBytes(work) * static_cast<double>(work.distinct);
  if (bytes <= *left) {
    *left -= bytes;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "--distinct %d: as many requests of %.4g KiB hold %.4g GiB, expected at "
      "most %.4g GiB for all kinds together; ask for fewer or smaller ones",
      work.distinct, RequestBytes(work) / 1024, bytes / (1 << 30),
      kMaxWorkBytes / (1 << 30)));
}

// Checks a kind before any is made, which may take long.
absl::StatusOr<Work> CheckKind(const MixEntry& entry, double* bytes_left) {
  absl::StatusOr<Work> work = MakeWork(entry.arguments);
  if (!work.ok()) return work.status();
  const absl::Status tenant = CheckMetadata(kTenantKey, entry.arguments.tenant);
  if (!tenant.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tenant: ", tenant.message()));
  }
  if (!entry.arguments.arrays.empty() && !entry.arguments.series.empty()) {
    return absl::InvalidArgumentError(
        "--arrays, --series: expected one of them");
  }
  if (entry.arguments.series.empty() && (!entry.arguments.time_unit.empty() ||
                                         !entry.arguments.missing.empty())) {
    return absl::InvalidArgumentError("--time-unit, --missing: need --series");
  }
  if (entry.arguments.arrays.empty()) {
    absl::Status status = TakeBytes(*work, bytes_left);
    if (!status.ok()) return status;
  }
  return work;
}

absl::StatusOr<WorkKind> MakeKind(const MixEntry& entry, const Work& work) {
  absl::StatusOr<std::vector<v1::AttendRequest>> requests;
  std::string text = WorkText(work);
  if (!entry.arguments.arrays.empty()) {
    requests =
        ReadArrayRequests(entry.arguments.arrays, entry.arguments.unit, work);
    text = entry.arguments.arrays;
  } else if (!entry.arguments.series.empty()) {
    const absl::StatusOr<Series> series = ReadSeries(entry.arguments);
    if (!series.ok()) return series.status();
    requests = MakeSeriesRequests(work, *series);
    absl::StrAppend(&text, " from ", entry.arguments.series);
  } else {
    requests = MakeRequests(work);
  }
  if (!requests.ok()) return requests.status();
  if (!entry.arguments.tenant.empty()) {
    absl::StrAppend(&text, " tenant ", entry.arguments.tenant);
  }
  return WorkKind{.name = entry.name.empty() ? text : entry.name,
                  .weight = entry.weight,
                  .tenant = entry.arguments.tenant,
                  .requests = *std::move(requests)};
}

}  // namespace

absl::StatusOr<std::vector<WorkKind>> MakeWorkKinds(
    const WorkArguments& arguments) {
  std::vector<MixEntry> entries;
  for (const std::string& text : arguments.mix) {
    absl::StatusOr<MixEntry> entry = ParseMixEntry(text, arguments);
    if (!entry.ok()) return entry.status();
    // Kinds must not send the same data.
    entry->arguments.seed += entries.size();
    entries.push_back(*std::move(entry));
  }
  if (entries.empty()) entries.push_back({.arguments = arguments});
  const auto about = [&](size_t i, const absl::Status& status) {
    if (arguments.mix.empty()) return status;
    return absl::Status(status.code(), absl::StrCat("--mix '", arguments.mix[i],
                                                    "': ", status.message()));
  };
  double bytes_left = kMaxWorkBytes;
  std::vector<Work> works;
  for (size_t i = 0; i < entries.size(); ++i) {
    absl::StatusOr<Work> work = CheckKind(entries[i], &bytes_left);
    if (!work.ok()) return about(i, work.status());
    works.push_back(*std::move(work));
  }
  std::vector<WorkKind> kinds;
  for (size_t i = 0; i < entries.size(); ++i) {
    absl::StatusOr<WorkKind> kind = MakeKind(entries[i], works[i]);
    if (!kind.ok()) return about(i, kind.status());
    kinds.push_back(*std::move(kind));
  }
  return kinds;
}

}  // namespace attnd::client
