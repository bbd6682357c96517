// attnd: reads its configuration, serves until told to stop, drains, exits 0.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "attnd_version.h"
#include "kernels/attention.h"
#include "server/config.h"
#include "server/encodings.h"
#include "server/log.h"
#include "server/machine.h"
#include "server/memory.h"
#include "server/reloader.h"
#include "server/server.h"

namespace attnd::server {
namespace {

constexpr int kExitBadConfig = 2;

sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Gives the first stop signal; a second one ends the process at once. SIGHUP
// asks for a reload, which this does not wait for. Blocked signals reach
// sigwait also in PID 1, for which the kernel ignores those without a handler.
std::future<int> WatchSignals(std::shared_ptr<Reloader> reloader) {
  std::promise<int> first;
  std::future<int> future = first.get_future();
  std::thread([first = std::move(first), reloader]() mutable {
    const sigset_t signals = HandledSignals();
    const auto wait = [&] {
      int signal = 0;
      sigwait(&signals, &signal);
      for (; signal == SIGHUP; sigwait(&signals, &signal)) reloader->Ask();
      return signal;
    };
    first.set_value(wait());
    _exit(128 + wait());
  }).detach();
  return future;
}

// One line per fault, on stderr as log lines are.
void ReportFaults(const absl::Status& status) {
  Log log{v1::Log()};
  for (absl::string_view line : absl::StrSplit(status.message(), '\n')) {
    log.Error("configuration", {{"message", line}});
  }
}

int CheckConfig(const std::string& file) {
  const Machine machine = ReadMachine();
  const auto config = LoadConfig(file, machine);
  if (!config.ok()) {
    std::fprintf(stderr, "%s\n",
                 std::string(config.status().message()).c_str());
    return kExitBadConfig;
  }
  const EncodingCatalog encodings(config->effective.encodings(), 1);
  std::string text =
      absl::StrCat("# machine: ", machine.Describe(),
                   "\n# workers: ", config->effective.workers(),
                   "\n# instruction set: ", InstructionSet(),
                   "\n# configuration hash: ", config->hash, "\n");
  for (const NamedEncoding& encoding : encodings.encodings()) {
    const auto resolved = Resolve(encoding, NominalSizes(encoding.spec));
    if (!resolved.ok()) continue;  // LoadConfig has tried it
    absl::StrAppend(&text, "# encoding ", encoding.name, ": ",
                    resolved->summary(), "\n");
  }
  std::printf("%s%s", text.c_str(), ConfigText(*config).c_str());
  return 0;
}

int Serve(const std::string& file, double pace) {
  // Before any thread exists, so that all inherit it.
  const sigset_t signals = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  KeepFreedMemory();
  const Machine machine = ReadMachine();
  const auto reloader = std::make_shared<Reloader>(file, machine);
  std::future<int> stopped = WatchSignals(reloader);
  const auto config = reloader->Load();
  if (!config.ok()) {
    ReportFaults(config.status());
    return kExitBadConfig;
  }
  auto server = Server::Start(*config, machine, {.run_unit = {}, .pace = pace});
  if (!server.ok()) {
    Log(config->effective.log())
        .Error("start failed", {{"message", server.status().message()}});
    return 1;
  }
  reloader->Follow(server->get());
  const int signal = stopped.get();
  Log(config->effective.log()).Info("signal", {{"signal", strsignal(signal)}});
  (*server)->Drain();
  // Nothing runs any more but perhaps a reload, and nobody waits for it, or for
  // memory to be freed piece by piece.
  std::fflush(nullptr);
  _exit(0);
}

// Not CLI::Range, which lets NaN pass.
std::string CheckPace(const std::string& text) {
  double pace;
  if (absl::SimpleAtod(text, &pace) && pace >= 1 && pace <= 1e6) return "";
  return absl::StrCat("'", text, "', expected a number from 1 to 1e6");
}

// An unset variable of a script is not an option left out.
std::string CheckFile(const std::string& text) {
  return text.empty() ? "'', expected a file" : "";
}

int WrongArguments(absl::string_view why) {
  std::fprintf(stderr, "attnd: %s\n  attnd --help tells what it takes\n",
               std::string(why).c_str());
  return kExitBadConfig;
}

int Main(int argc, char** argv) {
  CLI::App app("attnd: continuous-time attention over gRPC", "attnd");
  app.set_version_flag("--version", absl::StrCat("attnd ", ATTND_VERSION));
  std::string config, check;
  auto* serve = app.add_option("--config", config, "serve with this YAML file")
                    ->type_name("FILE");
  auto* checking =
      app.add_option("--check-config", check,
                     "check this YAML file, print what would run, and exit")
          ->type_name("FILE")
          ->excludes(serve);
  double pace = 1;
  app.add_option("--pace", pace,
                 "for tests: take F times as long for every unit of work, "
                 "idling, and predict costs so")
      ->type_name("F")
      ->needs(serve)
      ->check(CLI::Validator(CheckPace, ""));
  for (CLI::Option* file : {serve, checking}) {
    file->check(CLI::Validator(CheckFile, ""));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version; CLI11 has a number of its own per mistake.
    if (error.get_exit_code() == 0) return app.exit(error);
    return WrongArguments(error.what());
  }
  if (!check.empty()) return CheckConfig(check);
  if (!config.empty()) return Serve(config, pace);
  return WrongArguments("expected --config FILE or --check-config FILE");
}

}  // namespace
}  // namespace attnd::server

int main(int argc, char** argv) { return attnd::server::Main(argc, argv); }
