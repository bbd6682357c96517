#include "client/load/work_options.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/number_range.h"

namespace attnd::client {
namespace {

// Options by name, for the command line and for --mix alike.
using Arguments = WorkArguments;

constexpr absl::string_view kTime = "TIME";

struct WorkOption {
  const char* name;
  absl::string_view type;
  const char* text;
  std::variant<int64_t Arguments::*, std::optional<int64_t> Arguments::*,
               std::string Arguments::*>
      value;
  std::vector<const char*> choices = {};  // of a text; empty = any
  int64_t least = 1;                      // of a number
};

const std::vector<WorkOption>& WorkOptions() {
  static const auto& options = *new std::vector<WorkOption>{
      {"batch", "N", "Batch items", &Arguments::batch},
      {"heads", "N", "Query heads", &Arguments::heads},
      {"kv-heads", "N", "Key/value heads; default --heads",
       &Arguments::kv_heads},
      {"queries", "N", "Query rows", &Arguments::queries},
      {"keys", "N", "Key rows; default --queries", &Arguments::keys},
      {"dim", "N", "Head dimension", &Arguments::dim},
      {"value-dim", "N", "Value dimension; default --dim",
       &Arguments::value_dim},
      {"dtype",
       "TYPE",
       "f32, bf16 or f16",
       &Arguments::dtype,
       {"f32", "bf16", "f16"}},
      {"compute",
       "TYPE",
       "f32, or bf16: products of operands rounded to it",
       &Arguments::compute,
       {"f32", "bf16"}},
      {"encoding", "NAME", "Configured encoding; default: none",
       &Arguments::encoding},
      {"kind",
       "KIND",
       "softmax, or linear: sums over the past of each query",
       &Arguments::kind,
       {"softmax", "linear"}},
      {"normaliser",
       "NAME",
       "Of the linear kind: none, sum or retnet",
       &Arguments::normaliser,
       {"none", "sum", "retnet"}},
      {"feature-map",
       "NAME",
       "Of the linear kind: identity, elu_plus_one, relu or softplus",
       &Arguments::feature_map,
       {"identity", "elu_plus_one", "relu", "softplus"}},
      {"input-rule",
       "NAME",
       "Of the linear kind: event, zero_order_hold or trapezoid",
       &Arguments::input_rule,
       {"event", "zero_order_hold", "trapezoid"}},
      {"past", kTime, "Keys at most this old are visible", &Arguments::past},
      {"future", kTime, "Keys at most this far ahead are visible",
       &Arguments::future},
      {"past-keys",
       "N",
       "So many keys back are visible",
       &Arguments::past_keys,
       {},
       0},
      {"times",
       "KIND",
       "Times of the rows: none, grid, jitter (a grid that trembles), poisson, "
       "bursts, duplicates, missing (a grid with holes), days (gaps of days)",
       &Arguments::times,
       {"none", "grid", "jitter", "poisson", "bursts", "duplicates", "missing",
        "days"}},
      {"gap", kTime, "Mean time between rows", &Arguments::gap},
      {"arrays", "FILE",
       "Send these arrays: a .npz with query, key, value, query_time, "
       "key_time, "
       "or PREFIX of PREFIX.query.npy and so on",
       &Arguments::arrays},
      {"unit", "UNIT",
       "What one count of their integer times lasts: ns us ms s positions",
       &Arguments::unit},
      {"series", "FILE", "Send windows of this CSV series, see Work",
       &Arguments::series},
      {"time-column", "NAME", "Its column of times", &Arguments::time_column},
      {"value-column", "NAME", "Its column of values",
       &Arguments::value_column},
      {"time-unit", "UNIT",
       "Its times are counts of this since 1970: ns us ms s min h d w",
       &Arguments::time_unit},
      {"missing", "TEXT", "Another text for a missing value in it",
       &Arguments::missing},
      {"tenant", "NAME", "Sent as x-attnd-tenant", &Arguments::tenant},
      {"distinct", "N", "Requests with data of their own, sent in turn",
       &Arguments::distinct}};
  return options;
}

// Sets what an option says; false if it cannot be that.
struct Take {
  const WorkOption& option;
  const std::string& text;
  Arguments& arguments;

  bool operator()(std::string Arguments::*word) const {
    const auto& choices = option.choices;
    arguments.*word = text;
    return choices.empty() ||
           std::find(choices.begin(), choices.end(), text) != choices.end();
  }
  template <typename Number>
  bool operator()(Number Arguments::*number) const {
    int64_t value;
    if (!absl::SimpleAtoi(text, &value)) return false;
    arguments.*number = value;
    return true;
  }
};

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
    if (std::visit(Take{option, value, entry->arguments}, option.value)) {
      return absl::OkStatus();
    }
    return wrong(option.choices.empty() ? "a number"
                                        : absl::StrJoin(option.choices, ", "));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--mix: '", name,
                   "' is no option of the work, expected one without its "
                   "dashes, name or weight; see --help"));
}

}  // namespace

void AddWorkOptions(CLI::App* command, WorkArguments* arguments) {
  const std::string group = "Work";
  for (const WorkOption& option : WorkOptions()) {
    const std::string name = absl::StrCat("--", option.name);
    CLI::Option* added = std::visit(
        [&](auto value) {
          return command->add_option(name, arguments->*value, option.text);
        },
        option.value);
    added->type_name(std::string(option.type))->group(group);
    const auto* word = std::get_if<std::string Arguments::*>(&option.value);
    if (word == nullptr) added->check(WholeNumber(option.least));
    if (option.type == kTime) added->check(TimeFrom0());
    const bool has_default =
        word != nullptr
            ? !(arguments->**word).empty()
            : std::holds_alternative<int64_t Arguments::*>(option.value);
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
      ->check(RealNumber(0, 1, Ends::kLow))
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
      ->check(WholeNumber(-10, 10))
      ->type_name("N")
      ->group(group);
  command
      ->add_option("--seed", arguments->seed,
                   "Random seed of data, order and arrivals")
      ->check(Seed())
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

}  // namespace attnd::client
