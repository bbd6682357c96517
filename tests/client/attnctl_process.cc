#include "tests/client/attnctl_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

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

ProcessResult RunProcess(const std::string& program,
                         const std::vector<std::string>& arguments) {
  const std::string folder = FreshFolder();
  const std::string out = folder + "out";
  const std::string err = folder + "err";
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT,
                                   0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT,
                                   0600);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, program.c_str(), &actions, nullptr,
                                 argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ProcessResult result;
  if (failed != 0) {
    ADD_FAILURE() << "cannot run " << program;
    return result;
  }
  int status = 0;
  waitpid(pid, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = ReadFile(out).value_or("");
  result.err = ReadFile(err).value_or("");
  return result;
}

ProcessResult RunAttnctl(const std::vector<std::string>& arguments) {
  return RunProcess(ATTNCTL_PATH, arguments);
}

std::string LastLine(const std::string& text) {
  const std::vector<std::string> lines =
      absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  return lines.back();
}

}  // namespace attnd::client
