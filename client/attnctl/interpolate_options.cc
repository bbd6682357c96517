#include "client/attnctl/interpolate_options.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/duration_text.h"
#include "client/interpolate/trend.h"
#include "client/number_range.h"

namespace attnd::client {
namespace {

constexpr char kManual[] = R"(
Reads a series with irregular times and gaps, and estimates its value at wanted
times: a polynomial trend, fitted to the values it may see, plus attention-
weighted averages of what the trend leaves over. The weight of a value depends
on its distance D in time alone, through the encoding: rotations make values
of the same season weigh more, ALiBi makes near ones weigh more. With several
encodings each further one averages what those before it leave over: a wide one
for the seasons, then a narrow one for the level around the gap.

Input
  CSV by RFC 4180 with a time and a value column, in any order of rows, with
  repeated times. Times are ISO 8601 (2001-12-29, 2001-12-29T13:45:00+02:00;
  without a zone UTC) or, with --time-unit, counts since 1970. A value that is
  empty, NA, N/A, NaN, null, none or - is missing.

Output
  A CSV with the columns time, estimate, observed, state; state is observed,
  hidden (by --holdout), missing (a row without a value) or empty (no row).
  With --holdout the last line printed is
    held-out rmse: attention A UNIT, straight line B UNIT, plot PATH
  A is the error of the estimates where observations were hidden, B that of
  straight lines between the nearest visible ones.

Holding out
  --holdout 40x13 --seed 1 hides 40 blocks of 13 consecutive observations, each
  with a visible one on both sides, all arrangements equally likely; a seed
  hides the same ones on every machine.

Exit codes
  0  done
  1  the service refused the request
  2  the service was not reached, or not in time
  4  wrong arguments, or input that cannot be read
  5  a result could not be written

Examples
  attnctl interpolate co2_weekly.csv --at 7d --out filled.csv --plot filled.svg
  attnctl interpolate co2_weekly.csv --holdout 40x13 --seed 1 \
      --unit-label ppm --plot check.html
  attnctl interpolate air.csv --value ozone_ppb --at missing --trend 1 \
      --encoding nearby_days
  attnctl interpolate sensor.csv --no-header --time 1 --value 3 \
      --time-unit ms --at 500ms --encoding daily --plane-weights 6,2)";

absl::StatusOr<std::vector<double>> ParseWeights(const std::string& text) {
  std::vector<double> weights;
  if (text == "default") return weights;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    double weight;
    if (!absl::SimpleAtod(part, &weight) || !std::isfinite(weight) ||
        weight < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--plane-weights ", text,
                       ": expected numbers of at least 0 as 8,4, or default"));
    }
    weights.push_back(weight);
  }
  return weights;
}

void AddInputOptions(CLI::App* command, InterpolateArguments* arguments) {
  const std::string group = "Input";
  command->add_option("csv", arguments->input, "CSV file; - = standard input")
      ->required()
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--time", arguments->time_column,
                   "Time column, by name or number from 1")
      ->capture_default_str()
      ->type_name("COLUMN")
      ->group(group);
  command
      ->add_option("--value", arguments->value_column,
                   "Value column, by name or number from 1")
      ->capture_default_str()
      ->type_name("COLUMN")
      ->group(group);
  command
      ->add_flag("--no-header", arguments->no_header,
                 "The first line is data already")
      ->group(group);
  const CLI::Validator one_character(
      [](const std::string& text) {
        return text.size() == 1 && text != "\"" && text != "\n" && text != "\r"
                   ? std::string()
                   : absl::StrCat("'", text,
                                  "', expected one character, not a quote or "
                                  "line end");
      },
      "");
  command->add_option("--delimiter", arguments->delimiter, "Between fields")
      ->check(one_character)
      ->capture_default_str()
      ->group(group);
  command
      ->add_option("--time-unit", arguments->time_unit,
                   "Times are counts of this since 1970: ns us ms s min h d w")
      ->type_name("UNIT")
      ->group(group);
  command
      ->add_option("--missing", arguments->missing,
                   "Another text for a missing value; may be repeated")
      ->group(group)
      ->allow_extra_args(false);
}

void AddMethodOptions(CLI::App* command, InterpolateArguments* arguments) {
  const std::string group = "Method";
  command
      ->add_option("--at", arguments->at,
                   "Wanted times: rows, missing, hidden, a step as 7d, or a "
                   "file with one time a line")
      ->capture_default_str()
      ->type_name("WHEN")
      ->group(group);
  command
      ->add_option("--trend", arguments->trend,
                   "Degree of the polynomial trend, or none")
      ->capture_default_str()
      ->type_name("DEGREE")
      ->group(group);
  command
      ->add_option("--encoding", arguments->encodings,
                   "Configured encodings, applied in turn")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("NAME,...")
      ->group(group);
  command
      ->add_option("--plane-weights", arguments->plane_weights,
                   "Logit of each rotation plane at distance 0, as 8,4; once "
                   "per encoding, in order; default 8,4,2,...")
      ->type_name("W,...")
      ->group(group)
      ->allow_extra_args(false);
  command
      ->add_flag("--causal", arguments->causal,
                 "Average only values at or before the wanted time")
      ->group(group);
  command
      ->add_option("--holdout", arguments->holdout,
                   "Hide blocks x length observations and judge the estimates")
      ->type_name("NxLEN")
      ->group(group);
  command->add_option("--seed", arguments->seed, "Which ones are hidden")
      ->check(Seed())
      ->capture_default_str()
      ->group(group);
}

void AddOutputOptions(CLI::App* command, InterpolateArguments* arguments) {
  const std::string group = "Output";
  command
      ->add_option("--out", arguments->out,
                   "CSV file of the estimates; - = standard output")
      ->capture_default_str()
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--plot", arguments->plot,
                   "Plot: .svg, or a page with it: .html")
      ->type_name("FILE")
      ->group(group);
  command
      ->add_option("--unit-label", arguments->unit_label,
                   "Unit of the values in texts")
      ->group(group);
  command->add_option("--title", arguments->title, "Title of the plot")
      ->group(group);
}

}  // namespace

void AddInterpolateOptions(CLI::App* command, InterpolateArguments* arguments) {
  command->footer(kManual);
  AddInputOptions(command, arguments);
  AddMethodOptions(command, arguments);
  AddOutputOptions(command, arguments);
}

absl::StatusOr<int> TrendDegreeOf(const InterpolateArguments& arguments) {
  if (arguments.trend == "none") return -1;
  int degree;
  if (absl::SimpleAtoi(arguments.trend, &degree) && degree >= 0 &&
      degree <= Trend::kMaxDegree) {
    return degree;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--trend ", arguments.trend, ": expected a degree, 0 to ",
                   Trend::kMaxDegree, ", or none"));
}

absl::StatusOr<EstimateOptions> MakeEstimateOptions(
    const InterpolateArguments& arguments) {
  EstimateOptions options;
  options.causal = arguments.causal;
  options.message_bytes = arguments.target.message_bytes;
  if (arguments.plane_weights.size() > arguments.encodings.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--plane-weights: given ", arguments.plane_weights.size(),
                     " times for ", arguments.encodings.size(), " encodings"));
  }
  for (size_t i = 0; i < arguments.encodings.size(); ++i) {
    Pass pass = {.encoding = arguments.encodings[i], .plane_weights = {}};
    if (i < arguments.plane_weights.size()) {
      auto weights = ParseWeights(arguments.plane_weights[i]);
      if (!weights.ok()) return weights.status();
      pass.plane_weights = *std::move(weights);
    }
    options.passes.push_back(std::move(pass));
  }
  return options;
}

}  // namespace attnd::client
