// attnctl interpolate: fills the gaps of a series.
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/attnctl/commands.h"
#include "client/attnctl/exit_code.h"
#include "client/attnctl/failure.h"
#include "client/attnctl/interpolate_options.h"
#include "client/attnctl/target_options.h"
#include "client/attnctl/wait_notice.h"
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
#include "client/named_files.h"

namespace attnd::client {
namespace {

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

// Of --at.
bool IsKeyword(const std::string& at) {
  return at == "rows" || at == "missing" || at == "hidden";
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
    if (!grid.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--at ", arguments.at, ": ", grid.status().message()));
    }
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

absl::Status CheckFilesOf(const InterpolateArguments& arguments) {
  std::vector<NamedFile> inputs = TargetFiles(arguments.target);
  inputs.push_back({"csv", arguments.input});
  if (!IsKeyword(arguments.at) && !ParseDuration(arguments.at).ok()) {
    inputs.push_back({"--at", arguments.at});
  }
  return CheckFiles(inputs,
                    {{"--out", arguments.out}, {"--plot", arguments.plot}});
}

ExitCode Run(const InterpolateArguments& arguments) {
  const absl::Status files = CheckFilesOf(arguments);
  if (!files.ok()) return FailedInput(files);
  const auto format = TimeFormatOf(arguments.time_unit);
  if (!format.ok()) return FailedInput(format.status());
  const auto options = MakeEstimateOptions(arguments);
  if (!options.ok()) return FailedInput(options.status());
  HoldoutBlocks blocks;
  if (!arguments.holdout.empty()) {
    const auto parsed = ParseHoldout(arguments.holdout);
    if (!parsed.ok()) return FailedInput(parsed.status());
    blocks = *parsed;
  }
  const auto degree = TrendDegreeOf(arguments);
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
  absl::StatusOr<std::vector<double>> values;
  {
    const WaitNotice notice(arguments.target);
    values = Estimate(*client, *options, *trend, split->visible.time_ns,
                      split->visible.value, estimates.time_ns);
  }
  if (!values.ok()) return FailedCall(values.status());
  estimates.value = *std::move(values);
  return WriteResults(arguments, *series, *split, estimates, *wanted, *format);
}

}  // namespace

void AddInterpolateCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "interpolate", "Fill the gaps of an irregular time series");
  auto arguments = std::make_shared<InterpolateArguments>();
  AddInterpolateOptions(command, arguments.get());
  AddTargetOptions(command, &arguments->target);
  command->callback([arguments, exit_code] { *exit_code = Run(*arguments); });
}

}  // namespace attnd::client
