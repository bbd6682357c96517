// attnctl health: the state of a server by the standard health protocol.
#include <iostream>
#include <memory>
#include <string>

#include "client/attnctl/commands.h"
#include "client/attnctl/exit_code.h"
#include "client/attnctl/failure.h"
#include "client/attnctl/target_options.h"
#include "client/attnctl/wait_notice.h"

namespace attnd::client {
namespace {

constexpr char kManual[] = R"(
Prints the state of a service: SERVING, NOT_SERVING, SERVICE_UNKNOWN or
UNKNOWN. It uses grpc.health.v1, so it asks any gRPC server that has it. Made
for probes: quick, quiet, no shell needed.

Exit codes
  0  SERVING (--watch: was SERVING when the stream ended)
  1  any other state, or the server does not know the service
  2  the server was not reached within --timeout
  4  wrong arguments
  5  the state could not be written

Examples
  attnctl health
  attnctl health --target unix:/run/attnd/attnd.sock
  attnctl health --service attnd.v1.AttentionScoring --timeout 500ms
  attnctl health --watch --timeout 1h)";

struct HealthArguments {
  TargetOptions target = {.timeout = "5s"};
  std::string service;
  bool watch = false;
};

const char* Text(Health health) {
  switch (health) {
    case Health::kServing:
      return "SERVING";
    case Health::kNotServing:
      return "NOT_SERVING";
    case Health::kNoService:
      return "SERVICE_UNKNOWN";
    case Health::kUnknown:
      break;
  }
  return "UNKNOWN";
}

ExitCode CodeOf(Health health) {
  return health == Health::kServing ? kDone : kRefused;
}

// Prints each state as it comes, until the time is over or the server ends.
ExitCode Watch(const Client& client, const HealthArguments& arguments,
               absl::Duration timeout) {
  Health last = Health::kUnknown;
  bool any = false;
  const absl::Status status = client.WatchHealth(
      arguments.service,
      [&](Health health) {
        std::cout << Text(health) << std::endl;  // flushed: a pipe may read it
        last = health;
        any = true;
        return std::cout.good();  // main tells of a failure
      },
      {.timeout = timeout});
  if (!any) return FailedCall(status);
  return CodeOf(last);
}

ExitCode Check(const Client& client, const HealthArguments& arguments) {
  absl::StatusOr<Health> health;
  {
    const WaitNotice notice(arguments.target);
    health = client.CheckHealth(arguments.service);
  }
  if (absl::IsNotFound(health.status())) {
    std::cout << Text(Health::kNoService) << "\n";
    return kRefused;
  }
  if (!health.ok()) {
    FailedCall(health.status());
    return kUnreachable;
  }
  std::cout << Text(*health) << "\n";
  return CodeOf(*health);
}

ExitCode Run(const HealthArguments& arguments) {
  absl::StatusOr<ClientOptions> options = MakeClientOptions(arguments.target);
  if (!options.ok()) return FailedInput(options.status());
  absl::StatusOr<Client> client = Client::Create(*options);
  if (!client.ok()) return FailedInput(client.status());
  return arguments.watch ? Watch(*client, arguments, options->timeout)
                         : Check(*client, arguments);
}

}  // namespace

void AddHealthCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("health", "Is the server SERVING?");
  auto arguments = std::make_shared<HealthArguments>();
  command->footer(kManual);
  command->add_option("--service", arguments->service,
                      "Full service name; default: the server as a whole");
  command->add_flag("--watch", arguments->watch,
                    "Print each change until --timeout");
  AddTargetOptions(command, &arguments->target);
  command->callback([arguments, exit_code] { *exit_code = Run(*arguments); });
}

}  // namespace attnd::client
