// The program itself, as a child process.
#ifndef ATTND_TESTS_INTEGRATION_ATTND_PROCESS_H_
#define ATTND_TESTS_INTEGRATION_ATTND_PROCESS_H_

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace attnd::testing {

// attnd as a child. Its stderr is read line by line, its stdout as a whole.
class Attnd {
 public:
  // Of the program ATTND_BINARY, which the target defines, with more in its
  // environment ("KEY=value").
  explicit Attnd(const std::vector<std::string>& arguments,
                 const std::vector<std::string>& environment = {}) {
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], 1);
      dup2(err[1], 2);
      for (const std::string& entry : environment) {
        putenv(const_cast<char*>(entry.c_str()));
      }
      std::vector<char*> argv = {const_cast<char*>(ATTND_BINARY)};
      for (const std::string& argument : arguments) {
        argv.push_back(const_cast<char*>(argument.c_str()));
      }
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    stdout_ = out[0];
    stderr_ = err[0];
  }
  ~Attnd() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(stdout_);
    close(stderr_);
  }

  // The first line that holds `text`; "" when the process ends without one.
  std::string WaitForLine(const std::string& text) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::seconds(60);
    while (true) {
      const size_t newline = pending_.find('\n');
      if (newline != std::string::npos) {
        const std::string line = pending_.substr(0, newline);
        pending_.erase(0, newline + 1);
        log_ += line + "\n";
        if (line.find(text) != std::string::npos) return line;
        continue;
      }
      pollfd waiting = {.fd = stderr_, .events = POLLIN, .revents = 0};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - Clock::now());
      if (left.count() <= 0 ||
          poll(&waiting, 1, static_cast<int>(left.count())) <= 0) {
        return "";
      }
      char buffer[4096];
      const ssize_t got = read(stderr_, buffer, sizeof(buffer));
      if (got <= 0) return "";
      pending_.append(buffer, static_cast<size_t>(got));
    }
  }
  // All of its log, to its end.
  const std::string& WholeLog() {
    WaitForLine("\n");
    return log_;
  }
  std::string Output() {
    std::string text;
    char buffer[4096];
    ssize_t got;
    while ((got = read(stdout_, buffer, sizeof(buffer))) > 0) {
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }
  // Nobody reads its log any more.
  void CloseLog() { close(std::exchange(stderr_, -1)); }
  pid_t pid() const { return pid_; }
  void Signal(int signal) { kill(pid_, signal); }
  // Its exit code, or 1000 + the signal that killed it.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  bool running() const { return waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  pid_t pid_ = -1;
  int stdout_ = -1, stderr_ = -1;
  std::string pending_, log_;
};

// The value of a string field in a JSON line.
inline std::string Field(const std::string& line, const std::string& key) {
  const std::string start = absl::StrCat("\"", key, "\":\"");
  const size_t place = line.find(start);
  if (place == std::string::npos) return "";
  const size_t begin = place + start.size();
  return line.substr(begin, line.find('"', begin) - begin);
}

}  // namespace attnd::testing

#endif  // ATTND_TESTS_INTEGRATION_ATTND_PROCESS_H_
