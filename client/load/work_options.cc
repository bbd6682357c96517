#include "client/load/work_options.h"

#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/channel.h"
#include "client/duration_text.h"
#include "client/files.h"
#include "client/interpolate/csv.h"
#include "client/linear_names.h"
#include "client/load/array_work.h"

namespace attnd::client {
namespace {

// Options by name, for the command line and for --mix alike.
struct WorkOption {
  const char* name;
  const char* type;
  const char* text;
  // One of these.
  int64_t WorkArguments::*number = nullptr;
  std::string WorkArguments::*word = nullptr;
  std::vector<const char*> choices = {};
  std::optional<int64_t> WorkArguments::*optional_number = nullptr;
};

using Arguments = WorkArguments;

const std::vector<WorkOption>& WorkOptions() {
  static const auto& options = *new std::vector<WorkOption>{
      {"batch", "N", "Batch items", &Arguments::batch},
      {"heads", "N", "Query heads", &Arguments::heads},
      {"kv-heads",
       "N",
       "Key/value heads; default --heads",
       nullptr,
       nullptr,
       {},
       &Arguments::kv_heads},
      {"queries", "N", "Query rows", &Arguments::queries},
      {"keys",
       "N",
       "Key rows; default --queries",
       nullptr,
       nullptr,
       {},
       &Arguments::keys},
      {"dim", "N", "Head dimension", &Arguments::dim},
      {"value-dim",
       "N",
       "Value dimension; default --dim",
       nullptr,
       nullptr,
       {},
       &Arguments::value_dim},
      {"dtype",
       "TYPE",
       "f32, bf16 or f16",
       nullptr,
       &Arguments::dtype,
       {"f32", "bf16", "f16"}},
      {"compute",
       "TYPE",
       "f32, or bf16: products of operands rounded to it",
       nullptr,
       &Arguments::compute,
       {"f32", "bf16"}},
      {"encoding", "NAME", "Configured encoding; default: none", nullptr,
       &Arguments::encoding},
      {"kind",
       "KIND",
       "softmax, or linear: sums over the past of each query",
       nullptr,
       &Arguments::kind,
       {"softmax", "linear"}},
      {"normaliser",
       "NAME",
       "Of the linear kind: none, sum or retnet",
       nullptr,
       &Arguments::normaliser,
       {"none", "sum", "retnet"}},
      {"feature-map",
       "NAME",
       "Of the linear kind: identity, elu_plus_one, relu or softplus",
       nullptr,
       &Arguments::feature_map,
       {"identity", "elu_plus_one", "relu", "softplus"}},
      {"input-rule",
       "NAME",
       "Of the linear kind: event, zero_order_hold or trapezoid",
       nullptr,
       &Arguments::input_rule,
       {"event", "zero_order_hold", "trapezoid"}},
      {"past", "TIME", "Keys at most this old are visible", nullptr,
       &Arguments::past},
      {"future", "TIME", "Keys at most this far ahead are visible", nullptr,
       &Arguments::future},
      {"past-keys",
       "N",
       "So many keys back are visible",
       nullptr,
       nullptr,
       {},
       &Arguments::past_keys},
      {"times",
       "KIND",
       "Times of the rows: none, grid, jitter (a grid that trembles), poisson, "
       "bursts, duplicates, missing (a grid with holes), days (gaps of days)",
       nullptr,
       &Arguments::times,
       {"none", "grid", "jitter", "poisson", "bursts", "duplicates", "missing",
        "days"}},
      {"gap", "TIME", "Mean time between rows", nullptr, &Arguments::gap},
      {"arrays", "FILE",
       "Send these arrays: a .npz with query, key, value, query_time, "
       "key_time, "
       "or PREFIX of PREFIX.query.npy and so on",
       nullptr, &Arguments::arrays},
      {"unit", "UNIT",
       "What one count of their integer times lasts: ns us ms s positions",
       nullptr, &Arguments::unit},
      {"series", "FILE", "Send windows of this CSV series, see Work", nullptr,
       &Arguments::series},
      {"time-column", "NAME", "Its column of times", nullptr,
       &Arguments::time_column},
      {"value-column", "NAME", "Its column of values", nullptr,
       &Arguments::value_column},
      {"time-unit", "UNIT",
       "Its times are counts of this since 1970: ns us ms s min h d w", nullptr,
       &Arguments::time_unit},
      {"missing", "TEXT", "Another text for a missing value in it", nullptr,
       &Arguments::missing},
      {"tenant", "NAME", "Sent as x-attnd-tenant", nullptr, &Arguments::tenant},
      {"distinct", "N", "Requests with data of their own, sent in turn",
       &Arguments::distinct}};
  return options;
}

absl::Status SetField(const std::string& name, const std::string& value,
                      MixEntry* entry) {
  const auto wrong = [&](const std::string& expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("--mix: ", name, "=", value, ", expected ", expected));
  };
  if (name == "name") {
    entry->name = value;
    return absl::OkStatus();
  }
  if (name == "weight") {
    const bool good = absl::SimpleAtod(value, &entry->weight);
    return good && entry->weight > 0 && entry->weight < 1e9
               ? absl::OkStatus()
               : wrong("a number above 0");
  }
  if (name == "ragged") {
    return absl::SimpleAtod(value, &entry->arguments.ragged)
               ? absl::OkStatus()
               : wrong("a number");
  }
  if (name == "priority") {
    return absl::SimpleAtoi(value, &entry->arguments.priority)
               ? absl::OkStatus()
               : wrong("a number");
  }
  if (name == "causal") {
    entry->arguments.causal = value.empty() ? "time" : value;
    return absl::OkStatus();
  }
  if (name == "strict") {
    entry->arguments.strict = value.empty() || value == "true";
    return absl::OkStatus();
  }
  for (const WorkOption& option : WorkOptions()) {
    if (name != option.name) continue;
    if (option.number != nullptr) {
      return absl::SimpleAtoi(value, &(entry->arguments.*option.number))
                 ? absl::OkStatus()
                 : wrong("a number");
    }
    if (option.optional_number != nullptr) {
      int64_t number;
      if (!absl::SimpleAtoi(value, &number)) return wrong("a number");
      entry->arguments.*option.optional_number = number;
      return absl::OkStatus();
    }
    bool known = option.choices.empty();
    for (const char* choice : option.choices) known = known || value == choice;
    if (!known) return wrong(absl::StrJoin(option.choices, ", "));
    entry->arguments.*option.word = value;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--mix: '", name, "' is no option of the work; see --help"));
}

absl::StatusOr<int64_t> Length(const char* option, const std::string& text) {
  absl::StatusOr<int64_t> ns = ParseDuration(text);
  if (ns.ok() && *ns >= 0) return ns;
  return absl::InvalidArgumentError(absl::StrCat(
      option, ": ",
      ns.ok() ? "expected no negative time" : ns.status().message()));
}

absl::Status SetWindows(const Arguments& arguments, Work* work) {
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

absl::Status SetOutputs(const Arguments& arguments, Work* work) {
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

absl::Status SetLinear(const Arguments& arguments, Work* work) {
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

absl::StatusOr<Work> MakeWork(const Arguments& arguments) {
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

absl::StatusOr<Series> ReadSeries(const Arguments& arguments) {
  absl::StatusOr<std::string> file = ReadFile(arguments.series);
  if (!file.ok()) return file.status();
  SeriesOptions options = {.time_column = arguments.time_column,
                           .value_column = arguments.value_column};
  if (!arguments.missing.empty()) options.missing = {arguments.missing};
  if (!arguments.time_unit.empty()) {
    const auto unit_ns = UnitNanoseconds(arguments.time_unit);
    if (!unit_ns) {
      return absl::InvalidArgumentError(
          absl::StrCat("--time-unit ", arguments.time_unit,
                       ", expected ns us ms s min h d or w"));
    }
    options.time_format.epoch_unit_ns = *unit_ns;
  }
  const absl::StatusOr<CsvTable> table = ParseCsv(*file);
  absl::StatusOr<Series> series =
      table.ok() ? MakeSeries(*table, options) : table.status();
  if (series.ok()) return series;
  return absl::InvalidArgumentError(
      absl::StrCat(arguments.series, ": ", series.status().message()));
}

absl::StatusOr<WorkKind> MakeKind(const MixEntry& entry) {
  const absl::StatusOr<Work> work = MakeWork(entry.arguments);
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
  absl::StatusOr<std::vector<v1::AttendRequest>> requests;
  std::string text = WorkText(*work);
  if (!entry.arguments.arrays.empty()) {
    requests =
        ReadArrayRequests(entry.arguments.arrays, entry.arguments.unit, *work);
    text = entry.arguments.arrays;
  } else if (!entry.arguments.series.empty()) {
    const absl::StatusOr<Series> series = ReadSeries(entry.arguments);
    if (!series.ok()) return series.status();
    requests = MakeSeriesRequests(*work, *series);
    absl::StrAppend(&text, " from ", entry.arguments.series);
  } else {
    requests = MakeRequests(*work);
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

void AddWorkOptions(CLI::App* command, WorkArguments* arguments) {
  const std::string group = "Work";
  for (const WorkOption& option : WorkOptions()) {
    const std::string name = absl::StrCat("--", option.name);
    CLI::Option* added =
        option.number != nullptr
            ? command->add_option(name, arguments->*option.number, option.text)
        : option.optional_number != nullptr
            ? command->add_option(name, arguments->*option.optional_number,
                                  option.text)
            : command->add_option(name, arguments->*option.word, option.text);
    added->type_name(option.type)->group(group);
    if (option.word == nullptr) added->check(WholeNumber<int64_t>());
    const bool has_default =
        option.number != nullptr ||
        (option.word != nullptr && !(arguments->*option.word).empty());
    if (has_default) added->capture_default_str();
    if (!option.choices.empty()) {
      added->check(
          CLI::IsMember(std::vector<std::string>(option.choices.begin(),
                                                 option.choices.end()))
              .description(""));
    }
  }
  command
      ->add_flag("--causal{time}", arguments->causal,
                 "Keys after the query are hidden: by time, or --causal=index")
      ->type_name("RULE")
      ->group(group);
  command
      ->add_flag("--strict", arguments->strict,
                 "With --causal: keys at the query's own time too")
      ->group(group);
  command
      ->add_option("--ragged", arguments->ragged,
                   "Batch items have lengths of their own: 0.5 = from half of "
                   "the rows to all")
      ->type_name("SHARE")
      ->group(group);
  command
      ->add_option("--outputs", arguments->outputs,
                   "output,lse,scores,weights,key_mass,entropy")
      ->delimiter(',')
      ->type_name("LIST")
      ->group(group)
      ->capture_default_str();
  command
      ->add_option(
          "--priority", arguments->priority,
          "Priority of the requests, -10 to 10; larger is served first")
      ->type_name("N")
      ->group(group);
  command
      ->add_option("--seed", arguments->seed,
                   "Random seed of data, order and arrivals")
      ->check(WholeNumber<uint64_t>())
      ->type_name("N")
      ->group(group)
      ->capture_default_str();
  command
      ->add_option("--mix", arguments->mix,
                   "A kind of work among several: 'weight=3 name=long "
                   "queries=1024 causal=time'; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->group(group);
}

absl::StatusOr<MixEntry> ParseMixEntry(absl::string_view text,
                                       const WorkArguments& base) {
  MixEntry entry = {.arguments = base};
  entry.arguments.mix.clear();
  for (absl::string_view field :
       absl::StrSplit(text, absl::ByAnyChar(", "), absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    absl::Status status = SetField(parts.first, parts.second, &entry);
    if (!status.ok()) return status;
  }
  return entry;
}

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
  std::vector<WorkKind> kinds;
  for (const MixEntry& entry : entries) {
    absl::StatusOr<WorkKind> kind = MakeKind(entry);
    if (!kind.ok()) return kind.status();
    kinds.push_back(*std::move(kind));
  }
  return kinds;
}

}  // namespace attnd::client
