// attnctl load: how much a server does, how long it takes, and whether it is
// right.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "attnd_version.h"
#include "client/attnctl/commands.h"
#include "client/attnctl/exit_code.h"
#include "client/attnctl/failure.h"
#include "client/attnctl/target_options.h"
#include "client/files.h"
#include "client/histogram_codec.h"
#include "client/load/load_options.h"
#include "client/load/load_report.h"
#include "client/load/session.h"
#include "client/load/verify_kept.h"
#include "client/named_files.h"

namespace attnd::client {
namespace {

constexpr char kManual[] = R"(
What it does
  Without a schedule it keeps --in-flight calls under way, each followed by the
  next: a closed loop, which waits when the server is slow and so asks less of
  it. With --rate, --ramp, --steps or --replay calls start at planned moments
  whatever becomes of them: an open loop, as users are.

How time is taken
  Latency runs from the planned moment to the end of the answer; service time,
  shown beside it, from the moment of sending. When a server freezes for 2 s of
  10 s, one in five latencies shows it, as one in five users would see it.
  Connections are opened, and found healthy, before the schedule starts. Calls
  planned in the warm-up are in no figure. Throughput is answers over the time
  from the first planned moment to the last end. When --in-flight calls are
  under way an open loop drops what is due and counts it, or lets it wait with
  --when-full wait; it never delays in silence. Percentiles are of answers that
  were OK; failed and dropped calls are the errors.

When a run is invalid
  It was interrupted (SIGINT, SIGTERM: the first ends the run and reports it, a
  second the program); no call succeeded; a thread of this client used more than
  90 % of a processor; or 1 % of the calls were sent later than --max-lag after
  their time although there was a place: then this client was measured, not the
  server.

Work
  --mix takes the options of this section without their dashes; --encoding,
  --seed and all else given outside apply to every kind. --arrays sends a
  user's own tensors. --series cuts --distinct windows of --keys observations
  out of a CSV file, with their real times; its last --queries times ask. The
  same --seed sends the same bytes in the same order at the same moments. All
  requests are made before the run, 2 GiB at most; input files hold 64 MiB of
  text or 512 MiB of arrays at most.

Verification
  --verify 0.05 keeps a twentieth of the answers and, after the run, computes
  them again in double precision from the definitions of the encodings that the
  server lists. Each output is held to the accuracy that servers promise; of
  large requests some rows are checked. Requests with wrong answers are saved.
  So are those whose answers could not be checked, because the server no longer
  said what their encoding is or the computation does not know it: an answer
  that nobody can check counts as a wrong one.

The search
  --find-max doubles the rate until --slo is missed, halves the interval until
  it is narrower than --precision, and then wants the rate sustained twice in a
  row. Sustained means: levels met, nothing dropped, the median of the last
  third of the trial at most twice that of the first (and 1 ms), a valid run.

Exit codes
  0  done: levels met, answers right
  1  a service level was missed, or --find-max found no rate
  2  answers were wrong, or could not be checked
  3  the run is invalid: no connection, no success, interrupted, or this client
     too slow
  4  wrong arguments, a file that cannot be read, or no place for a result: no
     such folder, one file for two; nothing was sent
  5  a result could not be written
  Of several the run's validity counts first, then answers, then levels.

Examples
  attnctl load -n 8 -c 2 -d 30s --queries 512 --encoding rope --causal
      closed loop: how fast are 8 callers served?
  attnctl load --rate 200 --poisson -d 60s --slo 'p99<20ms,errors<0.1%'
      open loop: do 200 users a second get their answers in time?
  attnctl load --find-max --slo 'p99<20ms' --poisson -d 10s --html knee.html
      how much does it sustain?
  attnctl load --steps 100:30s,400:10s,100:30s --csv burst.csv --html burst.html
      how does it take a burst, and does it recover?
  attnctl load --rate 50 --mix 'weight=9 queries=64' \
      --mix 'weight=1 queries=4096 encoding=rope causal=time past=7d'
      mostly small requests, some large
  attnctl load --rate 50 --series co2.csv --keys 256 --queries 16 --verify 0.1
      windows of a real series, a tenth of the answers checked
  attnctl load --rate 100 --json=after.json
  attnctl compare before.json after.json
      is it faster than before?)";

std::atomic<bool> stop = false;

// The first interrupt ends the run and reports it, the second the program.
void StopAtFirst(int signal) {
  stop = true;
  std::signal(signal, SIG_DFL);
}

struct Arguments {
  TargetOptions target;
  LoadArguments load;
};

// Before the run, whose result would be lost.
absl::Status CheckFilesOf(const Arguments& arguments) {
  const LoadArguments& load = arguments.load;
  std::vector<NamedFile> inputs = LoadInputs(load);
  for (const NamedFile& file : TargetFiles(arguments.target)) {
    inputs.push_back(file);
  }
  std::vector<NamedFile> outputs = {
      {"--json", load.json}, {"--csv", load.csv},     {"--hdr", load.hdr},
      {"--hgrm", load.hgrm}, {"--junit", load.junit}, {"--html", load.html}};
  for (int i = 1; load.verify > 0 && i <= kSavedRequests; ++i) {
    outputs.push_back({"--save", SavedRequestPath(load.save, i)});
  }
  return CheckFiles(inputs, outputs);
}

std::string HistogramForm(const LoadReport& report) {
  const LoadResult& result = report.result;
  return HistogramLog(report.setting.start_epoch_seconds,
                      {{"latency", report.setting.warm_up_seconds,
                        result.span_seconds, &result.all.latency_ns},
                       {"service", report.setting.warm_up_seconds,
                        result.span_seconds, &result.all.service_ns}});
}

std::string PercentileForm(const LoadReport& report) {
  return report.result.all.latency_ns.PercentileText(1e6);
}

// Every form that can be written is, whatever becomes of the others; one that
// goes to standard output has it to itself.
ExitCode WriteReports(const LoadReport& report, const LoadArguments& load) {
  using Form = std::string (*)(const LoadReport&);
  const std::pair<const std::string&, Form> files[] = {
      {load.json, ReportJson},   {load.csv, ReportCsv},
      {load.junit, ReportJunit}, {load.html, ReportHtml},
      {load.hdr, HistogramForm}, {load.hgrm, PercentileForm}};
  const bool taken =
      std::any_of(std::begin(files), std::end(files),
                  [](const auto& file) { return file.first == "-"; });
  (taken ? std::cerr : std::cout) << ReportText(report);
  ExitCode code = kDone;
  for (const auto& [path, form] : files) {
    if (path.empty()) continue;
    absl::Status status = WriteFile(path, form(report));
    if (!status.ok()) code = FailedOutput(status);
  }
  return code;
}

ExitCode Verdict(const LoadReport& report) {
  if (!report.invalid.empty()) return kInvalidRun;
  if (report.verification && !report.verification->Passed()) {
    return kUnreachable;
  }
  const bool missed =
      !AllMet(report.slo) || (report.searched && !report.found_rate);
  return missed ? kRefused : kDone;
}

// Of standard error; what terminals had before they could be asked, if this one
// does not know.
int TerminalColumns() {
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0;
  return known && size.ws_col > 0 ? size.ws_col : 80;
}

ExitCode Run(const Arguments& arguments) {
  const absl::Status files = CheckFilesOf(arguments);
  if (!files.ok()) return FailedInput(files);
  auto plan = MakeLoadPlan(arguments.load);
  if (!plan.ok()) return FailedInput(plan.status());
  const auto options = MakeClientOptions(arguments.target);
  if (!options.ok()) return FailedInput(options.status());
  std::optional<LiveLine> live;
  if (!arguments.load.quiet && isatty(STDERR_FILENO) == 1) {
    live.emplace(std::cerr, TerminalColumns);
  }
  // A reader that is gone takes no other result with it.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, StopAtFirst);
  std::signal(SIGTERM, StopAtFirst);
  auto report = RunSession({.client = *options,
                            .target = arguments.target.target,
                            .arguments = arguments.load,
                            .live = live ? &*live : nullptr,
                            .tell =
                                [&](const std::string& text) {
                                  if (live)
                                    live->Write({});  // its line is free
                                  std::cerr << "attnctl: " << text << "\n";
                                },
                            .stop = &stop},
                           *std::move(plan));
  live.reset();
  if (absl::IsInvalidArgument(report.status())) {
    return FailedInput(report.status());
  }
  if (!report.ok()) {
    FailedCall(report.status());
    return kInvalidRun;
  }
  report->setting.client_version = ATTND_VERSION;
  const ExitCode written = WriteReports(*report, arguments.load);
  return written == kDone ? Verdict(*report) : written;
}

}  // namespace

void AddLoadCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "load", "Measure throughput, latency and correctness under load");
  auto arguments = std::make_shared<Arguments>();
  // What a retry hides, a load test must show.
  arguments->target.attempts = 1;
  command->footer(kManual);
  AddLoadOptions(command, &arguments->load);
  AddTargetOptions(command, &arguments->target);
  command->callback([arguments, exit_code] { *exit_code = Run(*arguments); });
}

}  // namespace attnd::client
