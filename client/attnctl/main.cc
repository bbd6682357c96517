// attnctl: the command-line client of attnd.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <iostream>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "attnd_version.h"
#include "client/attnctl/commands.h"
#include "client/attnctl/exit_code.h"
#include "client/attnctl/failure.h"
#include "client/attnctl/manual_format.h"

namespace {

constexpr char kDescription[] =
    R"(Asks attnd, the continuous-time attention service: is it up, what does it
offer, compute this, fill the gaps of this series, how fast is it.)";

constexpr char kFooter[] = R"(
Examples
  attnctl health                             is the server on this machine up?
  attnctl encodings --target attnd:50051     what time encodings does it offer?
  attnctl interpolate co2.csv --at 7d --out filled.csv --plot filled.svg
  attnctl load --in-flight 8 --duration 10s  how many requests a second?
  attnctl load --rate 100 --slo 'p99<20ms'   do 100 a second get theirs in time?
  attnctl COMMAND --help                     everything about one command

Exit codes
  0  done (health: SERVING)
  1  the service refused the request (health: not SERVING; load: a service
     level was missed; compare: worse than tolerated; encodings
     check: something is off)
  2  the service was not reached, or not in time (load: answers were wrong, or
     could not be checked)
  3  load, compare: the run was invalid, its figures must not be used
  4  wrong arguments, an input file that cannot be read, or no place for a
     result; nothing was done
  5  a result could not be written

attnctl reads no environment variables and no configuration file.)";

// A standard stream that whoever started this has closed would become the next
// connection's number, and a report would go down that connection. What stands
// there instead refuses to be read or written.
void OccupyStandardStreams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1) continue;
    open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Results that standard output did not take are lost: a full disk, a reader
// that is gone.
int AfterFlush(int exit_code) {
  using namespace attnd::client;  // NOLINT(google-build-using-namespace)
  errno = 0;
  std::cout.flush();
  if (std::cout.good()) return exit_code;
  // Of a write that failed before, the reason is gone.
  return FailedOutput(
      errno != 0 ? absl::ErrnoToStatus(errno, "standard output")
                 : absl::UnknownError("standard output: cannot be written"));
}

// An unset variable of a script is not an option left out. Names and texts may
// be empty: no encoding, the server as a whole, no title.
void RefuseEmptyValues(CLI::App& app) {
  const std::set<std::string> may_be_empty = {"--encoding", "--missing",
                                              "--service",  "--title",
                                              "--tls-name", "--unit-label"};
  const CLI::Validator not_empty(
      [](const std::string& text) {
        return text.empty() ? std::string("'', expected a value")
                            : std::string();
      },
      "");
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      if (option->get_type_size() != 0 &&
          !may_be_empty.contains(option->get_name())) {
        option->check(not_empty);
      }
    }
  }
}

// What follows an option whose value may be left out is taken for a word of its
// own: the way to say it, or nothing.
std::string EqualsHint(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string option = argv[i];
    if ((option == "--json" || option == "--causal") && argv[i + 1][0] != '-') {
      return option + "=" + argv[i + 1] + " is one word; ";
    }
  }
  return "";
}

int Main(int argc, char** argv) {
  using namespace attnd::client;  // NOLINT(google-build-using-namespace)
  int exit_code = kDone;
  CLI::App app(kDescription, "attnctl");
  app.formatter(std::make_shared<ManualFormat>());  // subcommands inherit it
  app.footer(kFooter);
  app.set_version_flag("--version", "attnctl " ATTND_VERSION);
  app.require_subcommand(1);
  AddHealthCommand(app, &exit_code);
  AddEncodingsCommand(app, &exit_code);
  AddAttendCommand(app, &exit_code);
  AddInterpolateCommand(app, &exit_code);
  AddLoadCommand(app, &exit_code);
  AddCompareCommand(app, &exit_code);
  RefuseEmptyValues(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty()) {
      std::cerr << "attnctl: '" << argv[1] << "' is no command; expected "
                << "health, encodings, attend, interpolate, load or "
                << "compare\n";
      return kUsage;
    }
    // --help and --version; CLI11 has a number of its own per mistake.
    if (error.get_exit_code() == 0) return app.exit(error);
    const auto commands = app.get_subcommands();
    const std::string command =
        commands.empty() ? "attnctl" : "attnctl " + commands[0]->get_name();
    std::cerr << "attnctl: " << error.what() << "\n  " << EqualsHint(argc, argv)
              << command << " --help tells what it takes\n";
    return kUsage;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  OccupyStandardStreams();
  return AfterFlush(Main(argc, argv));
}
