// attnd: reads its configuration, serves until told to stop, drains, exits 0.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "attnd_version.h"
#include "kernels/attention.h"
#include "server/config.h"
#include "server/encodings.h"
#include "server/file_watcher.h"
#include "server/log.h"
#include "server/machine.h"
#include "server/memory.h"
#include "server/server.h"

namespace attnd::server {
namespace {

constexpr int kExitBadConfig = 2;
constexpr double kLookSeconds = 1;

sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Reads the configuration again, for a server that runs.
class Reloader {
 public:
  Reloader(std::string file, Machine machine)
      : file_(std::move(file)), machine_(std::move(machine)) {}

  void SetServer(Server* server) {
    std::lock_guard lock(mutex_);
    server_ = server;
  }

  void Reload() {
    std::lock_guard lock(mutex_);
    if (server_ == nullptr) return;
    const auto config = LoadConfig(file_, machine_);
    if (config.ok()) {
      // Tells itself what came of it.
      (void)server_->Reload(*config);
    } else {
      server_->RefuseReload(config.status());
    }
  }

 private:
  const std::string file_;
  const Machine machine_;
  std::mutex mutex_;  // guards the next
  Server* server_ = nullptr;
};

// Gives the first stop signal; a second one ends the process at once. SIGHUP
// reloads. Blocked signals reach sigwait also in PID 1, for which the kernel
// ignores those without a handler.
std::future<int> WatchSignals(std::shared_ptr<Reloader> reloader) {
  std::promise<int> first;
  std::future<int> future = first.get_future();
  std::thread([first = std::move(first), reloader]() mutable {
    const sigset_t signals = HandledSignals();
    const auto wait = [&] {
      int signal = 0;
      sigwait(&signals, &signal);
      for (; signal == SIGHUP; sigwait(&signals, &signal)) reloader->Reload();
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
  const auto config = LoadConfig(file, machine);
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
  reloader->SetServer(server->get());
  std::vector<std::string> files = {file};
  const v1::Security& security = config->effective.security();
  if (!security.bearer_token_file().empty()) {
    files.push_back(security.bearer_token_file());
  }
  FileWatcher watcher(std::move(files));
  watcher.Start(kLookSeconds, [reloader] { reloader->Reload(); });
  const int signal = stopped.get();
  reloader->SetServer(nullptr);
  Log(config->effective.log()).Info("signal", {{"signal", strsignal(signal)}});
  (*server)->Drain();
  // Nothing runs any more, and nobody waits for memory to be freed piece by
  // piece.
  std::fflush(nullptr);
  _exit(0);
}

int Main(int argc, char** argv) {
  CLI::App app("attnd: continuous-time attention over gRPC", "attnd");
  app.set_version_flag("--version", absl::StrCat("attnd ", ATTND_VERSION));
  std::string config, check;
  auto* serve = app.add_option("--config", config, "serve with this YAML file")
                    ->type_name("FILE");
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
      ->check(CLI::Range(1.0, 1e6));
  CLI11_PARSE(app, argc, argv);
  if (!check.empty()) return CheckConfig(check);
  if (!config.empty()) return Serve(config, pace);
  std::fprintf(stderr, "%s", app.help().c_str());
  return kExitBadConfig;
}

}  // namespace
}  // namespace attnd::server

int main(int argc, char** argv) { return attnd::server::Main(argc, argv); }
