// attnctl interpolate: fills the gaps of a series.
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/attnctl/commands.h"
#include "client/attnctl/exit_code.h"
#include "client/attnctl/failure.h"
#include "client/attnctl/target_options.h"
#include "client/duration_text.h"
#include "client/files.h"
#include "client/interpolate/csv.h"
#include "client/interpolate/estimate.h"
#include "client/interpolate/holdout.h"
#include "client/interpolate/plot.h"
#include "client/interpolate/result.h"
#include "client/interpolate/series.h"
#include "client/interpolate/split.h"
#include "client/interpolate/trend.h"
#include "client/interpolate/wanted_times.h"

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

struct InterpolateArguments {
  TargetOptions target;
  std::string input;
  std::string time_column = "1";
  std::string value_column = "2";
  bool no_header = false;
  char delimiter = ',';
  std::string time_unit;
  std::vector<std::string> missing;
  std::string trend = "2";
  std::vector<std::string> encodings = {"co2", "co2_level"};
  std::vector<std::string> plane_weights;
  bool causal = false;
  std::string at = "rows";
  std::string holdout;
  uint64_t seed = 1;
  std::string out = "-";
  std::string plot;
  std::string unit_label;
  std::string title;
};

absl::StatusOr<TimeFormat> FormatOf(const InterpolateArguments& arguments) {
  if (arguments.time_unit.empty()) return TimeFormat{};
  const auto unit_ns = UnitNanoseconds(arguments.time_unit);
  if (unit_ns) return TimeFormat{.epoch_unit_ns = *unit_ns};
  return absl::InvalidArgumentError(
      absl::StrCat("--time-unit ", arguments.time_unit,
                   ", expected ns us ms s min h d or w"));
}

absl::StatusOr<Series> ReadSeries(const InterpolateArguments& arguments,
                                  const TimeFormat& format) {
  const absl::StatusOr<std::string> text = ReadFile(arguments.input);
  if (!text.ok()) return text.status();
  const absl::StatusOr<CsvTable> table = ParseCsv(
      *text,
      {.has_header = !arguments.no_header, .delimiter = arguments.delimiter});
  absl::StatusOr<Series> series =
      table.ok() ? MakeSeries(*table, {.time_column = arguments.time_column,
                                       .value_column = arguments.value_column,
                                       .time_format = format,
                                       .missing = arguments.missing})
                 : table.status();
  if (series.ok()) return series;
  return absl::InvalidArgumentError(
      absl::StrCat(arguments.input, ": ", series.status().message()));
}

// The distinct wanted times, sorted.
absl::StatusOr<std::vector<int64_t>> WantedTimes(
    const InterpolateArguments& arguments, const Series& series,
    const Split& split, const TimeFormat& format) {
  std::vector<int64_t> times;
  if (arguments.at == "rows") {
    times = series.time_ns;
  } else if (arguments.at == "missing") {
    times = split.missing_ns;
  } else if (arguments.at == "hidden") {
    times = split.hidden.time_ns;
  } else if (const auto step = ParseDuration(arguments.at); step.ok()) {
    auto grid =
        RegularGrid(series.time_ns.front(), series.time_ns.back(), *step);
    if (!grid.ok()) return grid.status();
    times = *std::move(grid);
  } else {
    absl::StatusOr<std::string> text = ReadFile(arguments.at);
    if (!text.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--at ", arguments.at,
                       ": expected rows, missing, hidden, a step as "
                       "7d, or a file of times (",
                       text.status().message(), ")"));
    }
    auto list = ParseTimeList(*text, format);
    if (!list.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(arguments.at, ": ", list.status().message()));
    }
    times = *std::move(list);
  }
  const std::set<int64_t> distinct(times.begin(), times.end());
  if (distinct.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--at ", arguments.at,
                     ": there is no such time; a step as 7d asks for "
                     "a regular grid"));
  }
  return std::vector<int64_t>(distinct.begin(), distinct.end());
}

absl::StatusOr<std::vector<double>> ParseWeights(const std::string& text) {
  std::vector<double> weights;
  if (text == "default") return weights;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    double weight;
    if (!absl::SimpleAtod(part, &weight)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--plane-weights ", text, ": expected numbers as 8,4, or default"));
    }
    weights.push_back(weight);
  }
  return weights;
}

absl::StatusOr<int> ParseDegree(const std::string& text) {
  int degree = -1;
  if (text == "none" || absl::SimpleAtoi(text, &degree)) return degree;
  return absl::InvalidArgumentError(
      absl::StrCat("--trend ", text, ": expected a degree, or none"));
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

absl::Status WritePlot(const InterpolateArguments& arguments,
                       const Series& series, const Split& split,
                       const Estimates& estimates) {
  PlotData data = MakePlotData(series, split, estimates);
  const std::vector<std::string> ends =
      TimeTexts({series.time_ns.front(), series.time_ns.back()});
  data.title = arguments.title.empty() ? absl::StrCat(series.value_name, ", ",
                                                      ends[0], " to ", ends[1])
                                       : arguments.title;
  data.subtitle =
      absl::StrCat(split.visible.time_ns.size(), " observations used");
  if (!split.hidden.time_ns.empty()) {
    absl::StrAppend(
        &data.subtitle, ", ", split.hidden.time_ns.size(), " hidden (",
        arguments.holdout, ", seed ", arguments.seed, "); ",
        VerdictText(Judge(split, estimates), arguments.unit_label, ""));
  }
  data.value_label =
      arguments.unit_label.empty() ? series.value_name : arguments.unit_label;
  const bool html = absl::EndsWithIgnoreCase(arguments.plot, ".html") ||
                    absl::EndsWithIgnoreCase(arguments.plot, ".htm");
  return WriteFile(arguments.plot, html ? PlotHtml(data) : PlotSvg(data));
}

// What goes to people; standard output when the CSV does not go there.
void PrintSummary(const InterpolateArguments& arguments, const Split& split,
                  const Estimates& estimates, size_t wanted) {
  std::ostream& out = arguments.out == "-" ? std::cerr : std::cout;
  out << arguments.input << ": " << split.visible.time_ns.size()
      << " observations used, " << split.hidden.time_ns.size() << " hidden, "
      << split.missing_ns.size() << " rows without a value; " << wanted
      << " estimates";
  if (arguments.out != "-") out << " in " << arguments.out;
  out << "\n";
  if (!split.hidden.time_ns.empty()) {
    out << VerdictText(Judge(split, estimates), arguments.unit_label,
                       arguments.plot)
        << "\n";
  } else if (!arguments.plot.empty()) {
    out << "plot " << arguments.plot << "\n";
  }
}

ExitCode WriteResults(const InterpolateArguments& arguments,
                      const Series& series, const Split& split,
                      const Estimates& estimates,
                      const std::vector<int64_t>& wanted,
                      const TimeFormat& format) {
  absl::Status written = WriteFile(
      arguments.out, ResultCsv(series, split, estimates, wanted, format));
  if (written.ok() && !arguments.plot.empty()) {
    written = WritePlot(arguments, series, split, estimates);
  }
  if (!written.ok()) return FailedOutput(written);
  PrintSummary(arguments, split, estimates, wanted.size());
  return kDone;
}

ExitCode Run(const InterpolateArguments& arguments) {
  const auto format = FormatOf(arguments);
  if (!format.ok()) return FailedInput(format.status());
  const auto options = MakeEstimateOptions(arguments);
  if (!options.ok()) return FailedInput(options.status());
  HoldoutBlocks blocks;
  if (!arguments.holdout.empty()) {
    const auto parsed = ParseHoldout(arguments.holdout);
    if (!parsed.ok()) return FailedInput(parsed.status());
    blocks = *parsed;
  }
  const auto degree = ParseDegree(arguments.trend);
  if (!degree.ok()) return FailedInput(degree.status());
  const auto series = ReadSeries(arguments, *format);
  if (!series.ok()) return FailedInput(series.status());
  const auto split = SplitSeries(*series, blocks, arguments.seed);
  if (!split.ok()) return FailedInput(split.status());
  const auto trend =
      Trend::Fit(split->visible.time_ns, split->visible.value, *degree);
  if (!trend.ok()) return FailedInput(trend.status());
  const auto wanted = WantedTimes(arguments, *series, *split, *format);
  if (!wanted.ok()) return FailedInput(wanted.status());
  const auto client = MakeClient(arguments.target);
  if (!client.ok()) return FailedInput(client.status());

  // Rows too: for the verdict and the line of the plot.
  std::set<int64_t> times(series->time_ns.begin(), series->time_ns.end());
  times.insert(wanted->begin(), wanted->end());
  Estimates estimates = {.time_ns = {times.begin(), times.end()}, .value = {}};
  auto values = Estimate(*client, *options, *trend, split->visible.time_ns,
                         split->visible.value, estimates.time_ns);
  if (!values.ok()) return FailedCall(values.status());
  estimates.value = *std::move(values);
  return WriteResults(arguments, *series, *split, estimates, *wanted, *format);
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
  command->add_option("--delimiter", arguments->delimiter, "Between fields")
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

void AddInterpolateCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "interpolate", "Fill the gaps of an irregular time series");
  auto arguments = std::make_shared<InterpolateArguments>();
  command->footer(kManual);
  AddInputOptions(command, arguments.get());
  AddMethodOptions(command, arguments.get());
  AddOutputOptions(command, arguments.get());
  AddTargetOptions(command, &arguments->target);
  command->callback([arguments, exit_code] { *exit_code = Run(*arguments); });
}

}  // namespace attnd::client
