#include "tests/client/attnctl_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/files.h"

extern char** environ;

namespace attnd::client {

std::string FreshFolder() {
  std::string pattern = ::testing::TempDir() + "attnctl_XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << pattern;
  return pattern + "/";
}

namespace {

// Standard output goes to the file `out`, or is closed if empty, errors to
// `err`; 0 when it failed.
pid_t Spawn(const std::string& program,
            const std::vector<std::string>& arguments, const std::string& out,
            int err) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (out.empty()) {
    posix_spawn_file_actions_addclose(&actions, 1);
  } else {
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(),
                                     O_WRONLY | O_CREAT, 0600);
  }
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, program.c_str(), &actions, nullptr,
                                 argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) return pid;
  ADD_FAILURE() << "cannot run " << program;
  return 0;
}

int ExitCodeOf(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// What comes until the last process that has the other end closes it.
std::string ReadTerminal(int master) {
  std::string text;
  char buffer[4096];
  ssize_t size;
  while ((size = read(master, buffer, sizeof(buffer))) > 0 ||
         (size < 0 && errno == EINTR)) {
    if (size > 0) text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

}  // namespace

namespace {

pid_t SpawnInto(const std::string& program, const std::string& folder,
                const std::string& out,
                const std::vector<std::string>& arguments) {
  const int err =
      open((folder + "err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const pid_t pid = Spawn(program, arguments, out, err);
  close(err);
  return pid;
}

ProcessResult ResultOf(pid_t pid, const std::string& folder) {
  ProcessResult result;
  if (pid == 0) return result;
  result.exit_code = ExitCodeOf(pid);
  result.out = ReadFile(folder + "out").value_or("");
  result.err = ReadFile(folder + "err").value_or("");
  return result;
}

}  // namespace

ProcessResult RunProcess(const std::string& program,
                         const std::vector<std::string>& arguments) {
  const std::string folder = FreshFolder();
  return ResultOf(SpawnInto(program, folder, folder + "out", arguments),
                  folder);
}

ProcessResult RunAttnctlInto(const std::string& file,
                             const std::vector<std::string>& arguments) {
  const std::string folder = FreshFolder();
  return ResultOf(SpawnInto(ATTNCTL_PATH, folder, file, arguments), folder);
}

StartedAttnctl::StartedAttnctl(const std::vector<std::string>& arguments)
    : folder_(FreshFolder()),
      pid_(SpawnInto(ATTNCTL_PATH, folder_, folder_ + "out", arguments)) {}

void StartedAttnctl::Send(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

ProcessResult StartedAttnctl::Wait() { return ResultOf(pid_, folder_); }

ProcessResult RunAttnctl(const std::vector<std::string>& arguments) {
  return RunProcess(ATTNCTL_PATH, arguments);
}

ProcessResult RunAttnctlOnTerminal(const std::vector<std::string>& arguments,
                                   int columns) {
  winsize size = {};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  int master, terminal;
  ProcessResult result;
  if (openpty(&master, &terminal, nullptr, nullptr, &size) != 0) {
    ADD_FAILURE() << "no pseudo-terminal";
    return result;
  }
  fcntl(master, F_SETFD, FD_CLOEXEC);
  fcntl(terminal, F_SETFD, FD_CLOEXEC);
  const std::string out = FreshFolder() + "out";
  const pid_t pid = Spawn(ATTNCTL_PATH, arguments, out, terminal);
  close(terminal);
  if (pid != 0) {
    result.err = ReadTerminal(master);
    result.exit_code = ExitCodeOf(pid);
    result.out = ReadFile(out).value_or("");
  }
  close(master);
  return result;
}

std::string LastLine(const std::string& text) {
  const std::vector<std::string> lines =
      absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  return lines.back();
}

}  // namespace attnd::client
