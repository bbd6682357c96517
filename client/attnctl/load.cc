// attnctl load: how much a server does, and how long it takes.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "client/attnctl/commands.h"
#include "client/attnctl/exit_code.h"
#include "client/attnctl/failure.h"
#include "client/attnctl/target_options.h"
#include "client/files.h"
#include "client/load/load_options.h"
#include "client/load/report.h"

namespace attnd::client {
namespace {

constexpr char kManual[] = R"(
Keeps a number of Attend calls in flight and measures how long each takes: a
closed loop. The data is random but seeded, the times irregular. Connections are
opened before the clock starts; calls that begin in the warm-up are not counted.
Throughput is answers over the time from the first measured start to the last
end. Latencies are kept in a histogram of three digits. Calls are never retried:
every refusal is counted with its code.

Exit codes
  0  done
  1  reserved: a service level was missed
  2  reserved: answers were wrong
  3  the run is invalid: no connection, or no call succeeded
  4  wrong arguments
  5  a result could not be written

Examples
  attnctl load
  attnctl load -n 8 -c 2 -d 30s --queries 512 --encoding rope --causal
  attnctl load -n 1 -r 1000 --batch 1 --heads 1 --queries 8 --dim 16 --json)";

struct Arguments {
  TargetOptions target;
  LoadArguments load;
};

ExitCode Invalid(const absl::Status& status) {
  FailedCall(status);
  return kInvalidRun;
}

ExitCode Run(const Arguments& arguments) {
  const auto plan = MakeLoadPlan(arguments.load);
  if (!plan.ok()) return FailedInput(plan.status());
  const auto options = MakeClientOptions(arguments.target);
  if (!options.ok()) return FailedInput(options.status());
  const auto requests = MakeRequests(plan->work);
  if (!requests.ok()) return FailedInput(requests.status());
  std::vector<grpc::ByteBuffer> payloads;
  for (const v1::AttendRequest& request : *requests) {
    payloads.push_back(Serialize(request));
  }
  auto caller =
      Caller::Connect(*options, plan->connections, plan->loop.in_flight);
  if (!caller.ok()) return Invalid(caller.status());

  const LoadResult result = RunClosedLoop(plan->loop, payloads, **caller);
  const LoadSetting setting = {
      .target = arguments.target.target,
      .work = WorkText(plan->work),
      .in_flight = plan->loop.in_flight,
      .connections = plan->connections,
      .warm_up_seconds =
          std::chrono::duration<double>(plan->loop.warm_up).count(),
      .seed = plan->work.seed,
      .request_bytes = static_cast<int64_t>(payloads.front().Length())};
  std::cout << (arguments.load.json ? ReportJson(setting, result)
                                    : ReportText(setting, result));
  if (!arguments.load.hdr.empty()) {
    const absl::Status written =
        WriteFile(arguments.load.hdr, result.latency_ns.PercentileText(1e6));
    if (!written.ok()) return FailedOutput(written);
  }
  return Invalidity(result).empty() ? kDone : kInvalidRun;
}

}  // namespace

void AddLoadCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("load", "Measure throughput and latency");
  auto arguments = std::make_shared<Arguments>();
  command->footer(kManual);
  AddLoadOptions(command, &arguments->load);
  AddTargetOptions(command, &arguments->target);
  command->callback([arguments, exit_code] { *exit_code = Run(*arguments); });
}

}  // namespace attnd::client
