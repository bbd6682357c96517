// attnctl compare: is one load test's result better than another's?
#include "client/load/compare.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/attnctl/commands.h"
#include "client/attnctl/exit_code.h"
#include "client/attnctl/failure.h"
#include "client/duration_text.h"
#include "client/files.h"
#include "client/number_range.h"

namespace attnd::client {
namespace {

constexpr char kManual[] = R"(
Reads two files of attnctl load --json and says for each figure how B differs
from A, with a 95 % confidence interval. The intervals come from resampling
stretches of the runs, since neighbouring calls are not independent; where an
interval holds no change, none was shown. Runs of 30 s and more say something.

Exit codes
  0  compared, and B is not worse than --tolerance allows
  1  B is worse by more than --tolerance, beyond doubt
  3  one of the runs was invalid
  4  wrong arguments, or a file that cannot be read
  5  the comparison could not be written

Examples
  attnctl load --rate 100 -d 60s --json=before.json
  attnctl load --rate 100 -d 60s --json=after.json
  attnctl compare before.json after.json --tolerance 0.05)";

// A day of metrics from several servers is within it.
constexpr int64_t kMaxResultBytes = int64_t{256} << 20;

struct Arguments {
  std::string a;
  std::string b;
  std::optional<double> tolerance;
};

absl::StatusOr<ComparedRun> Read(const std::string& path) {
  const absl::StatusOr<std::string> file = ReadFile(path, kMaxResultBytes);
  if (!file.ok()) return file.status();
  absl::StatusOr<ComparedRun> run = ParseRun(*file);
  if (run.ok()) return run;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", run.status().message()));
}

std::string ValueText(const ComparedFigure& figure, double value) {
  if (std::isnan(value)) return "none";
  if (figure.is_share) return absl::StrFormat("%.3g%%", 100 * value);
  return figure.more_is_better ? absl::StrFormat("%.4g/s", value)
                               : DurationText(1e9 * value);
}

// "+12.3%"; a ratio to nothing has no figure.
std::string ChangeText(double ratio) {
  return std::isfinite(ratio) ? absl::StrFormat("%+.1f%%", 100 * (ratio - 1))
                              : "no bound";
}

const char* Verdict(const ComparedFigure& figure) {
  if (!figure.Above(1) && !figure.Below(1)) return "no change shown";
  return figure.Above(1) == figure.more_is_better ? "better" : "worse";
}

bool WorseThan(const ComparedFigure& figure, double tolerance) {
  return figure.more_is_better ? figure.Below(1 / (1 + tolerance))
                               : figure.Above(1 + tolerance);
}

ExitCode Run(const Arguments& arguments) {
  const auto a = Read(arguments.a);
  if (!a.ok()) return FailedInput(a.status());
  const auto b = Read(arguments.b);
  if (!b.ok()) return FailedInput(b.status());
  if (a->mode != b->mode || a->work != b->work) {
    std::cout << "note: the runs differ in what was sent: " << a->mode << "; "
              << a->work << " against " << b->mode << "; " << b->work << "\n";
  }
  const size_t stretches = std::min(a->rows.size(), b->rows.size());
  if (stretches < 10) {
    std::cout << "note: only " << stretches
              << " stretches of time; the intervals mean little\n";
  }
  std::cout << absl::StrFormat("%-10s %10s %10s %9s  %-20s\n", "", "A", "B",
                               "change", "95 % interval");
  bool worse = false;
  for (const ComparedFigure& figure : Compare(*a, *b)) {
    std::cout << absl::StrFormat(
        "%-10s %10s %10s %9s  %8s to %8s  %s\n", figure.name,
        ValueText(figure, figure.a), ValueText(figure, figure.b),
        ChangeText(figure.ratio()), ChangeText(figure.low),
        ChangeText(figure.high), Verdict(figure));
    worse = worse ||
            (arguments.tolerance && WorseThan(figure, *arguments.tolerance));
  }
  if (!a->valid || !b->valid) {
    std::cout << "INVALID: " << (a->valid ? arguments.b : arguments.a)
              << " is of an invalid run\n";
    return kInvalidRun;
  }
  return worse ? kRefused : kDone;
}

}  // namespace

void AddCompareCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("compare", "Compare the results of two load tests");
  auto arguments = std::make_shared<Arguments>();
  command->footer(kManual);
  command->add_option("A", arguments->a, "Result before")
      ->type_name("FILE")
      ->required();
  command->add_option("B", arguments->b, "Result after")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--tolerance", arguments->tolerance,
                   "How much worse B may be: 0.05 = 5 %; default: any")
      ->check(RealNumber(0, kNoEnd, Ends::kLow))
      ->type_name("SHARE");
  command->callback([arguments, exit_code] { *exit_code = Run(*arguments); });
}

}  // namespace attnd::client
